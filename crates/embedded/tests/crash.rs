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

/// What the tables are after a crash: as they were, or without what was not synced, which is the
/// end of fjall's journal.
fn crash_tables(from: &Path, to: &Path, synced: &[(String, u64)], random: &mut Random) {
    copy_folder(&from.join("tables"), &to.join("tables"));
    if random.one_in(2) {
        return;
    }
    for (name, synced) in synced {
        let path = to.join("tables").join(name);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(synced + random.below(length - synced + 1)).unwrap();
    }
}

/// fjall's journals with how much of them holds something. Opening a store syncs them.
fn table_journals(folder: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder.join("tables")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let journals = names.filter(|name| name.ends_with(".jnl"));
    let used = |name: &str| {
        let bytes = std::fs::read(folder.join("tables").join(name)).unwrap();
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    };
    journals.map(|name| (name.clone(), used(&name))).collect()
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
            let synced = table_journals(folder.path());
            let load = tokio::spawn({
                let (ledger, engine) = (ledger.clone(), engine.clone());
                async move { ledger.run(Arc::new(engine)).await }
            });
            tokio::time::sleep(Duration::from_millis(20 + random.below(100))).await;

            let survivor = disk.crash(&mut random);
            let new_folder = TempDir::new().unwrap();
            crash_tables(folder.path(), new_folder.path(), &synced, &mut random);
            load.await.unwrap();
            engine.close();
            (folder, disk) = (new_folder, survivor);
        }
        assert!(total > 50, "seed {seed}: too little was written to tell anything");
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
            let synced = table_journals(folder.path());
            for step in 0..random.below(120) {
                let result = comparison.apply(&subject, &generator.step()).await;
                result.unwrap_or_else(|text| panic!("seed {seed}, {life}, step {step}: {text}"));
            }
            let survivor = disk.crash(&mut random);
            let new_folder = TempDir::new().unwrap();
            crash_tables(folder.path(), new_folder.path(), &synced, &mut random);
            engine.close();
            (folder, disk) = (new_folder, survivor);
        }
    }
}
