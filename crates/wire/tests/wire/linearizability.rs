//! Checks that the histories of concurrent clients of a remote store are linearizable, even if
//! connections break and answers are lost. The session resends a call only if no client can notice
//! the repetition.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_conformance::histories::{ObjectModel, check};
use nacre_conformance::workloads::use_object;
use nacre_conformance::{FaultyStore, MemoryStore, TestClasses, seeds};
use nacre_object::Store;
use nacre_wire::RemoteStore;

use crate::harness::{Node, SocketFolder, connect};
use crate::proxy::Proxy;

const CLIENTS: usize = 4;
const CALLS: usize = 25;
/// The connections of all clients break once in so many calls.
const CALLS_PER_CUT: usize = 23;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_of_concurrent_clients_are_linearizable() {
    let mut unknown = 0;
    for seed in seeds(6) {
        let folder = SocketFolder::new();
        let memory = MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()));
        let store = FaultyStore::over(Arc::new(memory));
        let served = Arc::new(store.clone());
        let node = Node::start(&folder.endpoint(), 1, |node| node.store(served)).await;
        let proxy = Arc::new(Proxy::start(&folder.named("proxy"), &node.endpoint));
        let mut stores: Vec<Arc<dyn Store>> = vec![];
        for _ in 0..CLIENTS {
            let session = connect(&folder.named("proxy")).await;
            stores.push(Arc::new(RemoteStore::new(session)));
        }
        let odds = FaultOdds { fail_before: 60, fail_after: 60, lose_event: 0 };
        let (mut faults, mut calls) = (seeded(seed, odds), 0);
        store.follow(Box::new(move |operation| {
            calls += 1;
            if calls % CALLS_PER_CUT == 0 {
                proxy.cut();
            }
            faults(operation)
        }));
        let object = "data/object".parse().unwrap();
        let history = use_object(&stores, &object, seed, CALLS).await;
        unknown += history.iter().filter(|operation| operation.answer.is_none()).count();
        check::<ObjectModel>(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        drop(stores);
        drop(node);
    }
    assert!(unknown > 0, "nothing was lost");
}
