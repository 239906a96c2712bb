//! Runs the suite that every store must pass, and random transactions, also with restarts in
//! between.

use std::sync::Arc;

use nacre_clock::{Random, SystemClock};
use nacre_conformance::random::{Comparison, Generator};
use nacre_conformance::{SeedCases, Subject, TestClasses, compare, run_all};
use nacre_embedded::{EmbeddedEngine, MIN_SEGMENT_BYTES, Options};
use nacre_object::Capabilities;
use tempfile::TempDir;

/// Seeds that failed once.
const CASES: SeedCases =
    SeedCases { file: "tests/random_seeds.txt", text: include_str!("random_seeds.txt") };
/// Steps of one random run.
const STEPS: usize = 150;
/// Random runs.
const SEEDS: u64 = 12;

fn options(folder: &TempDir) -> Options {
    let clock = Arc::new(SystemClock::default());
    let mut options = Options::new(folder.path(), Arc::new(TestClasses), clock);
    // Segments are so small that they fill up and are emptied all the time.
    options.segment_bytes = MIN_SEGMENT_BYTES * 4;
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_passes_the_suite() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(&folder)).unwrap();
    run_all(&Subject::watched(Arc::new(engine))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transactions_have_the_effect_the_model_predicts() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(&folder)).unwrap();
    let subject = Subject::watched(Arc::new(engine));
    for seed in CASES.seeds(SEEDS) {
        compare(&subject, seed, STEPS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reopening_changes_nothing() {
    let folder = TempDir::new().unwrap();
    for seed in CASES.seeds(SEEDS / 2) {
        let mut random = Random::seeded(seed);
        let mut generator = Generator::new(seed, Capabilities::all());
        let mut comparison = Comparison::new(&format!("reopened-{seed}"));
        let mut engine = EmbeddedEngine::open(options(&folder)).unwrap();
        for step in 0..STEPS {
            let subject = Subject::watched(Arc::new(engine.clone()));
            let result = comparison.apply(&subject, &generator.step()).await;
            result.unwrap_or_else(|text| panic!("seed {seed}, step {step}: {text}"));
            if random.one_in(15) {
                engine.close();
                engine = EmbeddedEngine::open(options(&folder)).unwrap();
                let subject = Subject::watched(Arc::new(engine.clone()));
                let result = comparison.check(&subject).await;
                result.unwrap_or_else(|text| panic!("seed {seed}, after step {step}: {text}"));
            }
        }
    }
}
