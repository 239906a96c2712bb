//! Runs the suite of stores on the engine, on a cluster of real daemons.

mod support;

use std::sync::Arc;

use nacre_conformance::{SeedCases, Subject, compare, run_all};

/// Seeds that failed once.
const CASES: SeedCases =
    SeedCases { file: "tests/random_seeds.txt", text: include_str!("random_seeds.txt") };
/// Steps of one random run.
const STEPS: usize = 150;
/// Random runs.
const SEEDS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_passes_the_suite() {
    run_all(&Subject::watched(Arc::new(support::engine().await))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transactions_have_the_effect_the_model_predicts() {
    let subject = Subject::watched(Arc::new(support::engine().await));
    for seed in CASES.seeds(SEEDS) {
        compare(&subject, seed, STEPS).await;
    }
}
