//! Tests that a cluster in this process delivers the messages of objects, even if it was closed and
//! opened again in between.

use std::time::Duration;

use nacre::{Cluster, ProgramId};
use nacre_brados::{Value, shown_reply};
use nacre_calls::{decode_reply, encode_request};
use nacre_node::LocalCluster;
use tempfile::TempDir;

const ACCOUNT: &str = include_str!("../../../programs/class/account.brados");
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

async fn open(folder: &TempDir) -> LocalCluster {
    LocalCluster::embedded(folder.path().join("cluster")).await.unwrap()
}

async fn ask(cluster: &Cluster, object: &str, method: &str, row: &[Value]) -> String {
    let object = cluster.object(&format!("data/{object}").parse().unwrap()).await.unwrap();
    let reply = object.call("account", method, encode_request(row)).await.unwrap();
    shown_reply(&decode_reply(&reply.output).unwrap())
}

async fn until_balance(cluster: &Cluster, object: &str, expected: &str) {
    let arrived = async {
        while ask(cluster, object, "balance", &[Value::Nil]).await != expected {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, arrived).await.expect("it arrives");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_sent_before_a_cluster_was_closed_arrive_when_it_is_open_again() {
    const TIMES: i64 = 8;
    let folder = tempfile::tempdir().unwrap();
    {
        let cluster = open(&folder).await;
        let account: ProgramId = "class/account".parse().unwrap();
        let version = cluster.programs().put(&account, ACCOUNT).await.unwrap();
        cluster.programs().activate(&account, version).await.unwrap();
        let row = [Value::text("first"), Value::Int(100)];
        assert_eq!(ask(&cluster, "a", "deposit", &row).await, "ret('ok')");
    }
    for time in 0..TIMES {
        let cluster = open(&folder).await;
        let row = [Value::text(&time.to_string()), Value::text("b"), Value::Int(5)];
        assert_eq!(ask(&cluster, "a", "transfer", &row).await, "ret('ok')");
        // The cluster is closed here, wherever the message is at this moment.
    }
    let cluster = open(&folder).await;
    until_balance(&cluster, "b", &format!("holds({})", 5 * TIMES)).await;
    assert_eq!(ask(&cluster, "a", "balance", &[Value::Nil]).await, "holds(60)");
}
