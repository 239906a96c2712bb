//! Simulates both sides of capabilities on a network that loses, delays, repeats and reorders
//! messages. Clients and authorities crash and stall, two authorities exist at once, and clocks
//! jump. A seed decides everything.

mod simulated;

use nacre_conformance::{SeedCases, find_planted_bug};
use simulated::{MUST_HAPPEN, Sabotage, World};

const CASES: SeedCases =
    SeedCases { file: "simulation_seeds.txt", text: include_str!("simulation_seeds.txt") };
/// A planted bug must be found within this many seeds.
const SEEDS_TO_FIND_A_BUG: u64 = 300;

#[test]
fn no_position_is_issued_twice_under_random_faults() {
    let trace = |seed| World::run(seed, None).map(|told| told.to_string());
    assert_eq!(trace(3), trace(3), "the same seed gives the same run");
    CASES.simulate(200, MUST_HAPPEN, |seed| World::run(seed, None));
}

#[test]
fn every_planted_bug_is_found() {
    for sabotage in Sabotage::ALL {
        let counts = |error: &str| error != World::RESTLESS;
        let seeds = 0..SEEDS_TO_FIND_A_BUG;
        find_planted_bug(sabotage, seeds, counts, |seed| World::run(seed, Some(sabotage)));
    }
}
