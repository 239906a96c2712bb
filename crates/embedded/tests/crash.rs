//! A crash loses no acknowledged or read data, and leaves no transaction half done.

mod support;

use std::path::Path;
use std::sync::Arc;

use nacre_clock::Random;
use nacre_conformance::Subject;
use nacre_conformance::random::{Comparison, Generator};
use nacre_conformance::seeds;
use nacre_conformance::wait::eventually;
use nacre_embedded::EmbeddedEngine;
use nacre_object::{Capabilities, MapEntry, Op, OpResult};
use support::contents::scrub;
use support::ledger::Ledger;
use support::{SimDisk, answer, append, copy_folder, object, open_on, options, submit};
use tempfile::TempDir;

/// Lives of one store: each ends with a crash.
const LIVES: usize = 4;
/// The least number of acknowledged transactions in each life.
const LEAST_OF_A_LIFE: u64 = 20;
/// The folder of the tables. Their entries are in synced files, or lost with the process.
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
            eventually("enough records are acknowledged", async || ledger.acknowledged() >= enough)
                .await;

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
async fn after_a_crash_a_store_holds_what_the_model_holds() {
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

/// Tears the last group of a journal. `lost` is the byte that fills its payload.
fn tear(folder: &Path, lost: u8) {
    let segments =
        std::fs::read_dir(folder.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    let mut torn = 0;
    for segment in segments.filter(|path| path.extension().is_some_and(|is| is == "segment")) {
        let mut bytes = std::fs::read(&segment).unwrap();
        let Some(at) = bytes.windows(64).position(|window| window == [lost; 64]) else { continue };
        bytes[at] = 0;
        // The mark that says that the group was synced was written later, so it is lost too.
        if let Some(mark) = bytes[at..].windows(4).position(|window| window == b"NMRK") {
            bytes[at + mark] = 0;
        }
        std::fs::write(&segment, bytes).unwrap();
        torn += 1;
    }
    assert_eq!(torn, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_group_is_not_counted_even_if_the_next_group_is_in_another_segment() {
    let (folder, left) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let value = |fill: u8| MapEntry { key: "k".into(), value: vec![fill; 8192].into() };
    for fill in [1, 2] {
        let set = Op::MapSet { entries: vec![value(fill)] };
        submit(&engine, &object("a"), vec![set]).await.unwrap();
    }
    copy_folder(folder.path(), left.path());
    engine.close();
    tear(left.path(), 2);

    let engine = EmbeddedEngine::open(options(left.path())).unwrap();
    let get = Op::MapGet { keys: vec!["k".into()] };
    let found = answer(&engine, &object("a"), get).await.unwrap();
    assert_eq!(found, OpResult::Values(vec![Some(value(1).value)]));
    // More than the rest of the segment holds.
    let segments = engine.stats().segments;
    submit(&engine, &object("b"), vec![append(vec![3; 60 * 1024])]).await.unwrap();
    assert!(engine.stats().segments > segments);
    assert_eq!(scrub(&engine), []);
}
