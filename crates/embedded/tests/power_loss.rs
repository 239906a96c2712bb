//! Cuts the power at every file-system call that changes the disk, one after the other. After that,
//! all acknowledged data must be there, and each transaction must be there wholly or not at all.

mod support;

use std::sync::Arc;

use nacre_clock::Random;
use nacre_conformance::random::{Comparison, Generator};
use nacre_conformance::{SeedCases, Subject};
use nacre_embedded::EmbeddedEngine;
use nacre_object::Capabilities;
use support::contents::scrub;
use support::ledger::Ledger;
use support::options;
use support::power::{Fault, Plan, PowerDisk};

/// Seeds that failed once.
const CASES: SeedCases =
    SeedCases { file: "tests/power_seeds.txt", text: include_str!("power_seeds.txt") };
/// Runs, each of some lives; `NACRE_SEEDS=n` makes n times as many.
const RUNS: u64 = 12;
/// Lives of one store: each ends with a power cut.
const LIVES: u64 = 4;
const WRITERS: usize = 4;
/// The last call, at most, at which the power goes: enough for flushes and compactions.
const MAX_CALLS: u64 = 700;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_acknowledged_or_read_survives_a_power_cut_at_any_call() {
    let mut cuts = 0;
    for seed in CASES.seeds(RUNS) {
        let mut random = Random::seeded(seed);
        let mut disk = PowerDisk::mount();
        let ledger = Ledger::new(WRITERS);
        let mut total = 0;
        for life in 0..LIVES {
            let context = || format!("seed {seed}, life {life}, after {total} transactions");
            // Some cuts come while the store is being opened: short ones are more likely.
            let limit = [20, 120, MAX_CALLS][random.below(3) as usize];
            let first = 1 + random.below(limit);
            disk.plan(Plan { fault: Fault::Power, first, last: u64::MAX });
            let end = match EmbeddedEngine::open(options(&disk.store())) {
                Ok(engine) => {
                    let errors = ledger.run(Arc::new(engine.clone())).await;
                    let end = format!("{errors:?}, {:?}", engine.failure());
                    engine.close();
                    end
                }
                Err(error) => error.to_string(),
            };
            assert!(disk.met_fault(), "{}: no call {first}: {end}", context());
            cuts += 1;
            let keep = [0, 1, 4, 7, 8][random.below(5) as usize];
            disk.cut(keep, &mut random);

            let engine = EmbeddedEngine::open(options(&disk.store())).unwrap_or_else(|error| {
                panic!("{}, cut at {first}, kept {keep}: {error}", context())
            });
            total = ledger.check(&engine).await;
            assert_eq!(scrub(&engine), [], "seed {seed}, life {life}");
            engine.close();
        }
    }
    println!("{cuts} power cuts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_power_cut_a_store_holds_what_the_model_holds() {
    for seed in CASES.seeds(RUNS / 2) {
        let mut random = Random::seeded(seed);
        let mut generator = Generator::new(seed, Capabilities::all());
        let mut comparison = Comparison::new(&format!("cut-{seed}"));
        let mut disk = PowerDisk::mount();
        for life in 0..LIVES {
            let engine = EmbeddedEngine::open(options(&disk.store())).unwrap();
            let subject = Subject::watched(Arc::new(engine.clone()));
            let agrees = comparison.check(&subject).await;
            agrees.unwrap_or_else(|text| panic!("seed {seed}, life {life}: {text}"));
            for step in 0..random.below(120) {
                let result = comparison.apply(&subject, &generator.step()).await;
                result.unwrap_or_else(|text| panic!("seed {seed}, {life}, step {step}: {text}"));
            }
            let keep = random.below(9);
            disk.cut(keep, &mut random);
            engine.close();
        }
    }
}
