//! Tests recovered file types on several nodes. The file type is a sequencer. It answers a change
//! before the change is stored, but never issues a position twice.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, name, node};
use nacre_conformance::Fault;
use nacre_conformance::faults::{FaultPlan, Operation, no_faults};
use nacre_object::{ErrorKind, Op};
use nacre_resource::{Resource, Stored};
use serde_json::{Value, json};

const PATH: &str = "/seq/orders";

/// The shipped sequencer, whose calls are all answered by its authority.
fn recovered() -> String {
    let shipped = include_str!("../../../programs/filetype/sequencer.lua");
    shipped.replace("filetype.capability(\"exclusive\")", "")
}

async fn sequencer(nodes: usize) -> (Cluster, Resource) {
    let cluster = Cluster::new(nodes);
    cluster.install("sequencer", 1, &recovered());
    let resource = cluster.create(PATH, "sequencer").await;
    (cluster, resource)
}

async fn next(resource: &Resource) -> u64 {
    resource.call("next", Value::Null).await.unwrap().as_f64().unwrap() as u64
}

async fn read(resource: &Resource) -> u64 {
    resource.call("read", Value::Null).await.unwrap().as_f64().unwrap() as u64
}

async fn stored(cluster: &Cluster) -> Stored {
    cluster.resources.stored(&name(PATH)).await.unwrap().unwrap()
}

/// Holds every commit until it is released.
fn hold_commits() -> FaultPlan {
    Box::new(|operation| {
        let Operation::Submit(request) = operation else { return None };
        let is_commit =
            matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == "commit");
        is_commit.then_some(Fault::Hold)
    })
}

/// The same type, which stores each change.
fn journaled() -> String {
    recovered().replace("filetype.recovered(function", "local _ = (function")
}

#[tokio::test(start_paused = true)]
async fn a_recovered_type_stores_only_the_changes_for_which_it_asks() {
    let (cluster, resource) = sequencer(1).await;
    for position in 0..100 {
        assert_eq!(next(&resource).await, position);
    }
    let stored = stored(&cluster).await;
    assert_eq!((stored.version, stored.is_behind), (1, true));
    assert_eq!(read(&resource).await, 100);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_must_be_stored_is_answered_only_once_it_is_stored() {
    let (cluster, resource) = sequencer(1).await;
    assert_eq!(next(&resource).await, 0);
    cluster.system.follow(hold_commits());
    assert_eq!(next(&resource).await, 1, "this one is not stored");
    let (asking, behind) = (Arc::new(resource), cluster.open(PATH).await);
    let asking = tokio::spawn(async move { asking.call("next", json!(1_000_000)).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let behind = tokio::spawn(async move { next(&behind).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!asking.is_finished() && !behind.is_finished(), "positions past the reserved ones");
    cluster.system.follow(no_faults());
    cluster.system.release(1);
    assert_eq!((asking.await.unwrap(), behind.await.unwrap()), (json!(2), 1_000_002));
}

#[tokio::test(start_paused = true)]
async fn no_position_is_issued_twice_while_authorities_are_killed() {
    let (cluster, _) = sequencer(3).await;
    let stop = tokio::sync::watch::Sender::new(false);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (resource, stopped) = (cluster.open(PATH).await, stop.subscribe());
        tasks.spawn(async move {
            let mut given = vec![];
            while !*stopped.borrow() {
                given.push(next(&resource).await);
            }
            assert!(given.is_sorted(), "each client's positions grow");
            given
        });
    }
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let victim = cluster.authority_of(PATH).await;
        cluster.kill_node(victim);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_ne!(cluster.authority_of(PATH).await, victim, "another node took over");
        cluster.start_node(victim);
    }
    stop.send_replace(true);
    let given = tasks.join_all().await.concat();
    let distinct: BTreeSet<_> = given.iter().collect();
    assert_eq!(distinct.len(), given.len());
    assert!(given.len() > 50);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_authority_issues_no_position() {
    let (cluster, resource) = sequencer(2).await;
    assert_eq!(next(&resource).await, 0);
    let (replaced, other) = (cluster.authority_of(PATH).await, cluster.open(PATH).await);
    assert_eq!(next(&other).await, 1);
    cluster.cut_off(replaced);
    assert_eq!(next(&resource).await, 1_000_001, "by the other node, past the reserved ones");
    cluster.join(replaced);
    // The replaced node and this client still believe that this node is the authority.
    assert_eq!(next(&other).await, 1_000_002);
}

#[tokio::test(start_paused = true)]
async fn a_handed_over_resource_continues_without_a_gap() {
    let (cluster, resource) = sequencer(2).await;
    for position in 0..20 {
        assert_eq!(next(&resource).await, position);
        let to = 1 - cluster.authority_of(PATH).await;
        resource.move_to(&node(to)).await.unwrap();
        assert_eq!(cluster.authority_of(PATH).await, to);
    }
    assert!(!stored(&cluster).await.is_behind);
    // Kill the node that took over last, after it has issued two more positions. The stored state,
    // from the hand-over, lacks them. The next authority must recover it instead of using it as it
    // is.
    assert_eq!((next(&resource).await, next(&resource).await), (20, 21));
    cluster.kill_node(cluster.authority_of(PATH).await);
    assert_eq!(next(&resource).await, 1_000_001);
}

#[tokio::test(start_paused = true)]
async fn a_journaled_version_stores_what_a_recovered_one_did_not() {
    let (cluster, resource) = sequencer(1).await;
    assert_eq!((next(&resource).await, next(&resource).await), (0, 1));
    cluster.install("sequencer", 2, &journaled());
    assert_eq!(read(&resource).await, 2);
    let kept = stored(&cluster).await;
    assert_eq!((&kept.state["tail"], kept.is_behind), (&json!(2), false));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_recover_a_state_does_not_run_on_it() {
    let (cluster, resource) = sequencer(2).await;
    assert_eq!((next(&resource).await, next(&resource).await), (0, 1));
    cluster.kill_node(cluster.authority_of(PATH).await);
    cluster.install("sequencer", 2, &journaled());
    let refused = resource.call("read", Value::Null).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("cannot recover"), "{refused}");
    cluster.install("sequencer", 3, &recovered());
    assert_eq!(read(&resource).await, 1_000_001);
}
