//! A crash loses nothing that anybody was told of, and leaves no transaction half done.

mod support;

use std::path::Path;
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
/// Says of which transactions the tables need not be told again.
const MANIFEST: &str = "MANIFEST";

/// What of fjall's journals a crash leaves as it is, however it goes.
struct Synced {
    /// With how much of each holds something. Opening a store syncs them.
    journals: Vec<(String, u64)>,
    /// A checkpoint syncs them again, and says so here.
    manifest: Vec<u8>,
}

impl Synced {
    /// Of a store that was just opened.
    fn now(disk: &SimDisk, folder: &Path) -> Self {
        // In this order: a checkpoint between the two is seen.
        let manifest = disk.content(MANIFEST);
        let entries = std::fs::read_dir(folder.join("tables")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let journals = names.filter(|name| name.ends_with(".jnl"));
        let used = |name: &str| {
            let bytes = std::fs::read(folder.join("tables").join(name)).unwrap();
            bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
        };
        Self { journals: journals.map(|name| (name.clone(), used(&name))).collect(), manifest }
    }

    /// Copies what the tables are after the crash that `survivor` is left of: as they were, or, if
    /// there was no checkpoint, without what was not synced, which is the end of the journals.
    fn crash_tables(&self, from: &Path, to: &Path, survivor: &SimDisk, random: &mut Random) {
        copy_folder(&from.join("tables"), &to.join("tables"));
        if random.one_in(2) || survivor.content(MANIFEST) != self.manifest {
            return;
        }
        for (name, synced) in &self.journals {
            let path = to.join("tables").join(name);
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(synced + random.below(length - synced + 1)).unwrap();
        }
    }
}

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
            let synced = Synced::now(&disk, folder.path());
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
            synced.crash_tables(folder.path(), new_folder.path(), &survivor, &mut random);
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
            let synced = Synced::now(&disk, folder.path());
            for step in 0..random.below(120) {
                let result = comparison.apply(&subject, &generator.step()).await;
                result.unwrap_or_else(|text| panic!("seed {seed}, {life}, step {step}: {text}"));
            }
            let survivor = disk.crash(&mut random);
            let new_folder = TempDir::new().unwrap();
            synced.crash_tables(folder.path(), new_folder.path(), &survivor, &mut random);
            engine.close();
            (folder, disk) = (new_folder, survivor);
        }
    }
}
