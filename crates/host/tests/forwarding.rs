//! A counter that is handed over in proxy mode: the former node forwards the clients' requests.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nacre_host::ClientRouting::{Forward, Redirect};
use nacre_object::NodeName;
use support::{Client, Nodes, Shelf, authority, client, hand_over, next, node};

/// A counter that counted once, a client of it, and its node.
async fn counting() -> (Arc<Shelf>, Arc<Nodes>, Client, NodeName) {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    assert_eq!(next(&client).await.unwrap(), 1);
    let first = authority(&shelf, "c");
    (shelf, nodes, client, first)
}

/// The nodes besides these.
fn others(these: &[&NodeName]) -> Vec<&'static str> {
    ["a", "b", "c"].into_iter().filter(|name| !these.contains(&&node(name))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_stays_with_the_former_node_which_forwards_its_requests() {
    let (shelf, nodes, old_client, first) = counting().await;
    let second = others(&[&first])[0];
    hand_over(&nodes, &shelf, second, Forward).await.unwrap();
    assert_eq!(authority(&shelf, "c"), node(second));
    for count in 2..12 {
        assert_eq!(next(&old_client).await.unwrap(), count);
    }
    assert_eq!(nodes.hosts[&first].forwards(), 10);
    let new_client = client(&shelf, &nodes, "c").await;
    assert_eq!(next(&new_client).await.unwrap(), 12);
    assert_eq!(nodes.hosts[&first].forwards(), 10, "a new client goes by the record");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_redirects_clients_forwards_no_request() {
    let (shelf, nodes, client, first) = counting().await;
    hand_over(&nodes, &shelf, others(&[&first])[0], Redirect).await.unwrap();
    assert_eq!(next(&client).await.unwrap(), 2);
    assert_eq!(nodes.hosts[&first].forwards(), 0);
}

#[tokio::test(start_paused = true)]
async fn clients_replace_a_successor_that_dies() {
    let (shelf, nodes, client, first) = counting().await;
    let second = others(&[&first])[0];
    hand_over(&nodes, &shelf, second, Forward).await.unwrap();
    assert_eq!(next(&client).await.unwrap(), 2);
    nodes.cut_off(Some(node(second)));
    assert_eq!(next(&client).await.unwrap(), 3);
    assert_ne!(authority(&shelf, "c"), node(second));
    nodes.cut_off(None);
    assert_eq!(next(&client).await.unwrap(), 4);
    assert_eq!(shelf.value("c"), 4);
}

#[tokio::test(start_paused = true)]
async fn clients_lose_no_count_when_the_node_that_forwards_dies() {
    let (shelf, nodes, client, first) = counting().await;
    let second = others(&[&first])[0];
    hand_over(&nodes, &shelf, second, Forward).await.unwrap();
    assert_eq!(next(&client).await.unwrap(), 2);
    nodes.cut_off(Some(first));
    assert_eq!(next(&client).await.unwrap(), 3);
    assert_eq!(authority(&shelf, "c"), node(second), "the authority was not replaced");
}

#[tokio::test(start_paused = true)]
async fn a_former_node_follows_the_record_to_the_next_authority() {
    for onward in [Redirect, Forward] {
        let (shelf, nodes, client, first) = counting().await;
        let second = others(&[&first])[0];
        hand_over(&nodes, &shelf, second, Forward).await.unwrap();
        assert_eq!(next(&client).await.unwrap(), 2);
        let third = others(&[&first, &node(second)])[0];
        hand_over(&nodes, &shelf, third, onward).await.unwrap();
        for count in 3..10 {
            assert_eq!(next(&client).await.unwrap(), count);
        }
        assert!(nodes.hosts[&first].forwards() >= 8, "{}", nodes.hosts[&first].forwards());
        let passed_twice = nodes.hosts[&node(second)].forwards();
        assert!(passed_twice <= 1, "{passed_twice} questions took two steps");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_over_again_forwards_no_request() {
    let (shelf, nodes, client, first) = counting().await;
    let second = others(&[&first])[0];
    hand_over(&nodes, &shelf, second, Forward).await.unwrap();
    assert_eq!(next(&client).await.unwrap(), 2);
    hand_over(&nodes, &shelf, first.as_str(), Forward).await.unwrap();
    let before = nodes.hosts[&first].forwards();
    for count in 3..6 {
        assert_eq!(next(&client).await.unwrap(), count);
    }
    assert_eq!(nodes.hosts[&first].forwards(), before);
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_moves_in_both_modes_issues_each_count_once() {
    const CLIENTS: usize = 4;
    const COUNTS: usize = 200;
    let (shelf, nodes, ..) = counting().await;
    let mut counting = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let client = client(&shelf, &nodes, "c").await;
        counting.spawn(async move {
            let mut counts = vec![];
            for _ in 0..COUNTS {
                counts.push(next(&client).await.unwrap());
            }
            counts
        });
    }
    let (mut moves, mut all) = (0, vec![]);
    while !counting.is_empty() {
        while let Some(done) = counting.try_join_next() {
            all.extend(done.unwrap());
        }
        let here = authority(&shelf, "c");
        let to = others(&[&here])[moves % 2];
        let routing = if moves % 3 == 0 { Redirect } else { Forward };
        hand_over(&nodes, &shelf, to, routing).await.unwrap();
        moves += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), CLIENTS * COUNTS, "none twice");
    assert_eq!(shelf.value("c"), (CLIENTS * COUNTS) as u64 + 1, "none lost");
    let forwards: u64 = nodes.hosts.values().map(|host| host.forwards()).sum();
    assert!(moves > 10 && forwards > 100, "{moves} moves, {forwards} forwards");
}
