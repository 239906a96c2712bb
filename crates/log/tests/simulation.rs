//! The cores on a network that loses, delays and repeats messages, with sequencers and targets that
//! die and come back. No IO and no time but the simulation's: a seed decides everything, and the
//! same seed gives the same trace.

mod simulated;

use nacre_conformance::seeds;
use simulated::World;

#[test]
fn whatever_the_network_does_the_log_is_right() {
    let mut events = 0;
    let (mut takeovers, mut doubts) = (0, 0);
    for seed in seeds(300) {
        let outcome = World::run(seed);
        events += outcome.trace.len();
        takeovers += outcome.takeovers;
        doubts += outcome.doubts;
    }
    // A quiet network would prove nothing.
    let one_seed = std::env::var_os("NACRE_SEED").is_some();
    assert!(one_seed || (takeovers > 100 && doubts > 1000 && events > 10_000));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(World::run(seed).trace, World::run(seed).trace, "seed {seed}");
    }
    assert_ne!(World::run(1).trace, World::run(2).trace);
}
