//! A store far away is a store like any other.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::{MemoryStore, Subject, TestClasses, compare, run_all, seeds};
use nacre_object::{Capabilities, PoolName};
use nacre_wire::RemoteStore;

use crate::harness::{Node, SocketFolder, connect};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_store_over_a_unix_socket_conforms() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &store()).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    run_all(&Subject::watched(Arc::new(remote))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_store_over_tcp_conforms() {
    let node = Node::of_store(&"127.0.0.1:0".parse().unwrap(), &store()).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    run_all(&Subject::watched(Arc::new(remote))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_store_refuses_requests_that_its_node_does_not_support() {
    let folder = SocketFolder::new();
    let poor = store().with_capabilities(Capabilities::NONE);
    let node = Node::start(&folder.endpoint(), 1, |node| node.store(Arc::new(poor))).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    run_all(&Subject::new(Arc::new(remote))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_transactions_give_the_same_results_over_the_wire() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &store()).await;
    let remote = Arc::new(RemoteStore::new(connect(&node.endpoint).await));
    for seed in seeds(8) {
        let pool = PoolName::new(format!("seed-{seed}")).unwrap();
        compare(&Subject::watched(remote.clone()).in_pool(pool), seed, 100).await;
    }
}
