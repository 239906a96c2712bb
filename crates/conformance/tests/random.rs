//! The comparison agrees with itself, and tries everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nacre_clock::ManualClock;
use nacre_conformance::{MemoryStore, Subject, TestClasses, compare, seeds};
use nacre_object::{
    Capabilities, ErrorKind, ListPage, ListRequest, Op, Reply, Request, Result, Store,
};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()))
}

#[tokio::test]
async fn the_model_agrees_with_itself() {
    let subject = Subject::watched(Arc::new(store()));
    for seed in seeds(30) {
        compare(&subject, seed, 100).await;
    }
    let less = Subject::new(Arc::new(store().with_capabilities(Capabilities::NONE)));
    for seed in seeds(10) {
        compare(&less, seed, 100).await;
    }
}

/// Counts what comes of transactions.
#[derive(Debug)]
struct Counting {
    store: MemoryStore,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Ops by name: in transactions that succeeded, and that failed in this op.
    ops: BTreeMap<&'static str, (usize, usize)>,
    kinds: BTreeMap<&'static str, usize>,
    succeeded: usize,
    failed: usize,
}

#[async_trait]
impl Store for Counting {
    async fn submit(&self, request: Request) -> Result<Reply> {
        let names: Vec<_> = request.ops.iter().map(Op::name).collect();
        let result = self.store.submit(request).await;
        let mut counts = self.counts.lock().unwrap();
        match &result {
            Ok(_) => {
                counts.succeeded += 1;
                for name in names {
                    counts.ops.entry(name).or_default().0 += 1;
                }
            }
            Err(error) => {
                counts.failed += 1;
                *counts.kinds.entry(error.kind().as_str()).or_default() += 1;
                if let Some(name) = names.into_iter().find(|name| error.operation() == Some(name)) {
                    counts.ops.entry(name).or_default().1 += 1;
                }
            }
        }
        result
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.store.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
}

#[tokio::test]
async fn every_op_succeeds_in_some_random_step_and_most_ops_fail_in_another() {
    let counting = Arc::new(Counting { store: store(), counts: Mutex::default() });
    for seed in 0..60 {
        compare(&Subject::new(counting.clone()), seed, 100).await;
    }
    let counts = counting.counts.lock().unwrap();
    // Ops that cannot fail, or only of an absent object, are left out of the second count.
    let never_alone =
        ["create", "append", "write", "write-full", "map-set-header", "set-attribute"];
    for (name, (succeeded, failed)) in &counts.ops {
        assert!(*succeeded >= 10, "{name} succeeded {succeeded} times");
        assert!(*failed > 0 || never_alone.contains(name) || *name == "snapshot-list", "{name}");
    }
    assert_eq!(counts.ops.len(), 30, "every op there is");
    for kind in [ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::Invalid, ErrorKind::Conflict] {
        assert!(counts.kinds[kind.as_str()] >= 20, "{kind}");
    }
    assert!(counts.succeeded > counts.failed, "{} to {}", counts.succeeded, counts.failed);
}
