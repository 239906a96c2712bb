//! A crash loses nothing that anybody was told of, and leaves no transaction half done.

mod support;

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Random;
use nacre_conformance::Subject;
use nacre_conformance::random::{Comparison, Generator};
use nacre_conformance::seeds;
use nacre_embedded::EmbeddedEngine;
use nacre_object::Capabilities;
use support::ledger::Ledger;
use support::{SimDisk, copy_folder, open_on};
use tempfile::TempDir;

/// Lives of one store: each ends with a crash.
const LIVES: usize = 4;
/// Transactions acknowledged in each.
const LEAST_OF_A_LIFE: u64 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// What the tables have is in files that are synced, or lost with the process.
const TREE: &str = "tree";
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_acknowledged_or_read_survives_a_power_failure() {
    for seed in seeds(6) {
        let mut random = Random::seeded(seed);
        let (mut folder, mut disk) = (TempDir::new().unwrap(), SimDisk::default());
        let ledger = Ledger::new(8);
        let mut total = 0;
        for life in 0..LIVES {
            let engine = open_on(&disk, folder.path())
                .unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
            total = ledger.check(&engine).await;
            let load = tokio::spawn({
                let (ledger, engine) = (ledger.clone(), engine.clone());
                async move { ledger.run(Arc::new(engine)).await }
            });
            let enough = total + LEAST_OF_A_LIFE + random.below(400);
            while ledger.acknowledged() < enough {
                tokio::time::sleep(LOOK_AGAIN).await;
            }

            let survivor = disk.crash(&mut random);
            let new_folder = TempDir::new().unwrap();
            copy_folder(&folder.path().join(TREE), &new_folder.path().join(TREE));
            load.await.unwrap();
            engine.close();
            (folder, disk) = (new_folder, survivor);
        }
        assert!(total >= (LIVES as u64 - 1) * LEAST_OF_A_LIFE, "seed {seed}: {total} are left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_a_store_is_what_the_model_is() {
    for seed in seeds(6) {
        let mut random = Random::seeded(seed);
        let mut generator = Generator::new(seed, Capabilities::all());
        let mut comparison = Comparison::new(&format!("crashed-{seed}"));
        let (mut folder, mut disk) = (TempDir::new().unwrap(), SimDisk::default());
        for life in 0..LIVES {
            let engine: EmbeddedEngine = open_on(&disk, folder.path()).unwrap();
            let subject = Subject::watched(Arc::new(engine.clone()));
            let agrees = comparison.check(&subject).await;
            agrees.unwrap_or_else(|text| panic!("seed {seed}, life {life}: {text}"));
            for step in 0..random.below(120) {
                let result = comparison.apply(&subject, &generator.step()).await;
                result.unwrap_or_else(|text| panic!("seed {seed}, {life}, step {step}: {text}"));
            }
            let survivor = disk.crash(&mut random);
            let new_folder = TempDir::new().unwrap();
            copy_folder(&folder.path().join(TREE), &new_folder.path().join(TREE));
            engine.close();
            (folder, disk) = (new_folder, survivor);
        }
    }
}
