//! Tests that each message between objects arrives once, even if the test kills the objects' nodes.
//! Also tests what an operator sees of undelivered messages.

mod common;

use std::time::Duration;

use nacre::{Cluster, ErrorKind, Object, OutboxPage};
use nacre_brados::Value;
use nacre_calls::{OutputRows, decode_reply, encode_request};
use nacre_clock::Random;

use common::RunningCluster;
use nacre_conformance::wait::within_deadline;

const ACCOUNT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/account.brados");
const ACCOUNTS: u64 = 6;
const DEPOSIT: i64 = 1000;
const TRANSFERS: u64 = 60;
const WORKERS: u64 = 3;
const KILLS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn name(account: u64) -> String {
    format!("account{account}")
}

async fn account(cluster: &Cluster, account: u64) -> Object {
    cluster.object(&format!("data/{}", name(account)).parse().unwrap()).await.unwrap()
}

/// Asks until there is a reply.
async fn ask(object: &Object, method: &str, row: &[Value]) -> Vec<OutputRows> {
    let replied = async {
        loop {
            match object.call("account", method, encode_request(row)).await {
                Ok(reply) => return decode_reply(&reply.output).unwrap(),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    within_deadline("a reply of the account", replied).await
}

fn status(reply: &[OutputRows]) -> String {
    match &reply[0].1[0][0] {
        Value::Bytes(status) => String::from_utf8(status.clone()).unwrap(),
        other => panic!("{other}"),
    }
}

async fn balance(cluster: &Cluster, number: u64) -> i64 {
    match ask(&account(cluster, number).await, "balance", &[Value::Nil]).await[..] {
        [(_, ref rows)] => match rows[0][0] {
            Value::Int(amount) => amount,
            ref other => panic!("{other}"),
        },
        ref other => panic!("{other:?}"),
    }
}

/// Transfers amounts between accounts. Returns how much each account gained by the transfers that
/// were carried out.
async fn transfer(cluster: Cluster, worker: u64) -> Vec<i64> {
    let mut random = Random::seeded(worker);
    let mut gains = vec![0; ACCOUNTS as usize];
    for number in 0..TRANSFERS {
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        let amount = 1 + random.below(20) as i64;
        let id = format!("{worker}.{number}");
        let row = [Value::text(&id), Value::text(&name(to)), Value::Int(amount)];
        let reply = ask(&account(&cluster, from).await, "transfer", &row).await;
        // Again: its first reply was lost.
        if matches!(&*status(&reply), "ok" | "again") {
            gains[from as usize] -= amount;
            gains[to as usize] += amount;
        }
    }
    gains
}

async fn outbox(cluster: &Cluster, number: u64) -> OutboxPage {
    let object = account(cluster, number).await;
    let shown = async {
        loop {
            match object.outbox().await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                other => return other.unwrap(),
            }
        }
    };
    within_deadline("the outbox of an account", shown).await
}

/// Waits until an account has nothing more to send.
async fn until_sent(cluster: &Cluster, number: u64) {
    let sent = async {
        while !outbox(cluster, number).await.waiting.is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.expect("it is delivered");
    assert_eq!(outbox(cluster, number).await.dead, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arrive_once_while_nodes_are_killed() {
    let running = RunningCluster::start();
    running.run(&["program", "put", "class/account", ACCOUNT, "--activate"]);
    let cluster = Cluster::connect(running.folder()).await.unwrap();
    for number in 0..ACCOUNTS {
        let row = [Value::text("first"), Value::Int(DEPOSIT)];
        assert_eq!(status(&ask(&account(&cluster, number).await, "deposit", &row).await), "ok");
    }
    let workers: Vec<_> =
        (0..WORKERS).map(|worker| tokio::spawn(transfer(cluster.clone(), worker))).collect();
    let nodes: Vec<_> = cluster.store().placement().targets().to_vec();
    for kill in 0..KILLS {
        let node = nodes[kill % nodes.len()].name.as_str();
        tokio::task::block_in_place(|| running.kill_node(node));
        let back = cluster.object(&"data/account0".parse().unwrap()).await.unwrap();
        ask(&back, "balance", &[Value::Nil]).await;
    }
    let mut expected = vec![DEPOSIT; ACCOUNTS as usize];
    for worker in workers {
        let gains = worker.await.unwrap();
        expected.iter_mut().zip(gains).for_each(|(sum, gain)| *sum += gain);
    }
    for number in 0..ACCOUNTS {
        until_sent(&cluster, number).await;
    }
    for number in 0..ACCOUNTS {
        assert_eq!(balance(&cluster, number).await, expected[number as usize], "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_undelivered_messages() {
    let running = RunningCluster::start();
    running.run(&["program", "put", "class/account", ACCOUNT, "--activate"]);
    let other = std::fs::read_to_string(ACCOUNT).unwrap().replace("'account'", "'nobody'");
    let path = running.folder().join("other.brados");
    std::fs::write(&path, other).unwrap();
    running.run(&["program", "put", "class/other", path.to_str().unwrap(), "--activate"]);
    let call = |object: &str, class: &str, method: &str, row: &str| {
        running.run(&["class", "call", object, class, method, "--row", row])
    };
    call("data/a", "account", "deposit", "[\"1\", 10]");
    call("data/a", "account", "transfer", "[\"2\", \"b\", 4]");
    call("data/c", "other", "deposit", "[\"1\", 10]");
    call("data/c", "other", "transfer", "[\"2\", \"b\", 4]");
    let cluster = Cluster::connect(running.folder()).await.unwrap();
    let object = cluster.object(&"data/c".parse().unwrap()).await.unwrap();
    let given_up = async {
        while object.outbox().await.unwrap().dead.is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, given_up).await.expect("it is given up");
    let shown = running.run(&["class", "outbox", "data/c"]);
    assert!(shown.contains("no class nobody"), "{shown}");
    assert!(shown.contains("enqueue('b', 'nobody', 'credit', 4)"), "{shown}");
    let json = running.json(&["class", "outbox", "data/c"]);
    assert_eq!(json["dead"][0]["row"], serde_json::json!(["b", "nobody", "credit", 4]));
    assert_eq!(json["waiting"], serde_json::json!([]));
    let told = async {
        while !running.run(&["events"]).contains("messages of data/c were given up") {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("it is told");
    // Add the missing class. Then the message that was given up can be delivered.
    running.run(&["program", "put", "class/nobody", ACCOUNT, "--activate"]);
    let number = json["dead"][0]["number"].to_string();
    let resent = running.json(&["class", "resend", "data/c", &number]);
    assert_eq!(resent["resent"], 1);
    let arrived = async {
        while call("data/b", "nobody", "balance", "[null]") != "holds(8)\n" {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, arrived).await.expect("it is delivered");
    assert!(running.run(&["events"]).contains("1 dead letters of data/c delivered again"));
    let (_, said) = running.fails(&["class", "resend", "data/c", &number]);
    assert!(said.contains(&format!("no message {number} was given up")), "{said}");
}
