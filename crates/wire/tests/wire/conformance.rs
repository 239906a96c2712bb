//! A store far away is a store like any other.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::{MemoryStore, Subject, TestClasses, compare, run_all, seeds};
use nacre_object::{Capabilities, PoolName};
use nacre_wire::RemoteStore;

use crate::harness::{Node, Place, connect};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_unix_socket_it_conforms() {
    let place = Place::new();
    let node = Node::of_store(&place.endpoint(), &store()).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    run_all(&Subject::watched(Arc::new(remote))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tcp_it_conforms() {
    let node = Node::of_store(&"127.0.0.1:0".parse().unwrap(), &store()).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    run_all(&Subject::watched(Arc::new(remote))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_cannot_do_is_known_here() {
    let place = Place::new();
    let poor = store().with_capabilities(Capabilities::NONE);
    let node = Node::start(&place.endpoint(), 1, |node| node.store(Arc::new(poor))).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    run_all(&Subject::new(Arc::new(remote))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_transactions_give_the_same_results_over_the_wire() {
    let place = Place::new();
    let node = Node::of_store(&place.endpoint(), &store()).await;
    let remote = Arc::new(RemoteStore::new(connect(&node.endpoint).await));
    for seed in seeds(8) {
        let pool = PoolName::new(format!("seed-{seed}")).unwrap();
        compare(&Subject::watched(remote.clone()).in_pool(pool), seed, 100).await;
    }
}
