//! Tests in a simulation that reads are consistent with writes. Clients, switches and controllers
//! use a network that loses, delays, repeats and reorders messages. Nodes crash and pause.
//!
//! A read never returns data older than an earlier write that was acknowledged, or than an earlier
//! read. The seed determines the whole run.

mod simulated;

use nacre_conformance::{SeedCases, find_planted_bug};
use simulated::{MUST_HAPPEN, Sabotage, World};

const CASES: SeedCases =
    SeedCases { file: "consistency_seeds.txt", text: include_str!("consistency_seeds.txt") };
/// A planted bug must be found within this many seeds.
const SEEDS_TO_FIND_A_BUG: u64 = 400;

#[test]
fn no_read_returns_older_data_than_was_acknowledged_or_read() {
    let trace = |seed| World::run(seed, None).map(|told| told.to_string());
    assert_eq!(trace(3), trace(3), "the same seed gives the same run");
    CASES.simulate(100, MUST_HAPPEN, |seed| World::run(seed, None));
}

#[test]
fn every_planted_bug_is_found() {
    for sabotage in Sabotage::ALL {
        let counts = |error: &str| error != World::RESTLESS;
        let seeds = 0..SEEDS_TO_FIND_A_BUG;
        find_planted_bug(sabotage, seeds, counts, |seed| World::run(seed, Some(sabotage)));
    }
}
