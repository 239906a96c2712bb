//! Histories of concurrent clients of the engine are linearizable, even if replies are lost.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_conformance::histories::{ObjectModel, check};
use nacre_conformance::workloads::use_object;
use nacre_conformance::{FaultyStore, TestClasses, seeds};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::Store;
use tempfile::TempDir;

const CLIENTS: usize = 4;
const CALLS: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_of_concurrent_clients_are_linearizable() {
    let folder = TempDir::new().unwrap();
    let clock = Arc::new(SystemClock::default());
    let options = Options::new(folder.path(), Arc::new(TestClasses), clock);
    let engine: Arc<dyn Store> = Arc::new(EmbeddedEngine::open(options).unwrap());
    let odds = FaultOdds { fail_before: 40, fail_after: 25, lose_event: 0 };
    let mut unknown = 0;
    for seed in seeds(40) {
        let stores: Vec<Arc<dyn Store>> = (0..CLIENTS)
            .map(|n| {
                let lossy = FaultyStore::over(engine.clone());
                lossy.follow(seeded(seed * 100 + n as u64, odds));
                Arc::new(lossy) as Arc<dyn Store>
            })
            .collect();
        let object = format!("data/seed-{seed}").parse().unwrap();
        let history = use_object(&stores, &object, seed, CALLS).await;
        unknown += history.iter().filter(|operation| operation.answer.is_none()).count();
        check::<ObjectModel>(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(unknown > 0, "nothing was lost");
}
