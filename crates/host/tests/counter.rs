//! A counter on nodes that fail, and that hand it over.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nacre_host::{ClientRouting, Host, Question};
use nacre_object::ErrorKind;
use support::{
    CounterRecord, Counters, Next, Nodes, Shelf, answer, authority, client, hand_over, next, node,
};

#[tokio::test(start_paused = true)]
async fn the_first_request_makes_a_node_take_the_counter_over() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    assert_eq!((next(&client).await.unwrap(), next(&client).await.unwrap()), (1, 2));
    let serving: Vec<_> = nodes.hosts.values().map(|host| host.serving().len()).collect();
    assert_eq!(serving.iter().sum::<usize>(), 1, "one node serves");
}

#[tokio::test(start_paused = true)]
async fn a_silent_authority_is_replaced_and_cannot_count_after_that() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let [first, second] = [client(&shelf, &nodes, "c").await, client(&shelf, &nodes, "c").await];
    assert_eq!(next(&first).await.unwrap(), 1);
    assert_eq!(next(&second).await.unwrap(), 2);
    let deposed = authority(&shelf, "c");
    nodes.cut_off(Some(deposed.clone()));
    assert_eq!(next(&first).await.unwrap(), 3);
    assert_ne!(authority(&shelf, "c"), deposed);
    // The second client still uses the old record, and the deposed node still believes that it
    // serves.
    nodes.cut_off(None);
    assert_eq!(nodes.hosts[&deposed].serving(), ["c"]);
    assert_eq!(next(&second).await.unwrap(), 4, "the deposed node's count was refused");
    assert_eq!(shelf.value("c"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_authority_stops_when_a_client_knows_a_later_record() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    next(&client).await.unwrap();
    let deposed = authority(&shelf, "c");
    nodes.cut_off(Some(deposed.clone()));
    next(&client).await.unwrap();
    let epoch = shelf.records.lock().unwrap()["c"].epoch;
    let question = Next.encode(&"c".into(), epoch);
    let refused = answer(&nodes, &nodes.hosts[&deposed], "next", &question).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Stale, "{refused}");
    assert!(nodes.hosts[&deposed].serving().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_moves_back_and_forth_issues_each_count_once() {
    const CLIENTS: usize = 4;
    const COUNTS: usize = 200;
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
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
    next(&client(&shelf, &nodes, "c").await).await.unwrap();
    let (mut moves, mut all) = (0, vec![]);
    while !counting.is_empty() {
        while let Some(done) = counting.try_join_next() {
            all.extend(done.unwrap());
        }
        let other = if authority(&shelf, "c") == node("a") { "b" } else { "a" };
        hand_over(&nodes, &shelf, other, ClientRouting::Redirect).await.unwrap();
        assert_eq!(authority(&shelf, "c"), node(other));
        moves += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), CLIENTS * COUNTS, "none twice");
    assert_eq!(shelf.value("c"), (CLIENTS * COUNTS) as u64 + 1, "none lost");
    assert!(moves > 10, "{moves} moves");
}

#[tokio::test(start_paused = true)]
async fn a_counter_stays_where_it_is_if_its_successor_does_not_answer() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    next(&client).await.unwrap();
    let here = authority(&shelf, "c");
    let other = if here == node("a") { "b" } else { "a" };
    nodes.cut_off(Some(node(other)));
    let refused = hand_over(&nodes, &shelf, other, ClientRouting::Redirect).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!((authority(&shelf, "c"), next(&client).await.unwrap()), (here, 2));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_serve_a_counter_cannot_hand_it_over() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    next(&client(&shelf, &nodes, "c").await).await.unwrap();
    let other = if authority(&shelf, "c") == node("a") { "b" } else { "a" };
    let host = &nodes.hosts[&node(other)];
    let (name, transport) = ("c".to_owned(), Arc::clone(&nodes) as _);
    let moved = host.hand_over(&name, node("a"), transport, "counters", ClientRouting::Redirect);
    assert_eq!(moved.await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_node_hosts_no_more_machines_than_its_bound() {
    let shelf = Shelf::with_counter("c");
    let host = Host::new(node("a"), Counters(Arc::clone(&shelf)));
    for name in ["c", "d", "e"] {
        let record = CounterRecord { name: name.into(), epoch: 1, authority: None };
        shelf.records.lock().unwrap().insert(name.into(), record);
    }
    for name in ["c", "d"] {
        host.recover(&name.to_owned(), 1).await.unwrap();
    }
    let refused = host.recover(&"e".to_owned(), 1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
}
