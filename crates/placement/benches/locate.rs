//! Benchmark: the time to find an object's target. The baseline is the simplest placement: the hash
//! modulo the number of targets.

use std::hint::black_box;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{PoolName, TargetName};
use nacre_placement::{Placement, Target};

const ROUNDS: usize = 2_000_000;

fn nanoseconds_each(clock: &SystemClock, mut run: impl FnMut(usize)) -> f64 {
    let started = clock.monotonic();
    (0..ROUNDS).for_each(&mut run);
    (clock.monotonic() - started).as_nanos() as f64 / ROUNDS as f64
}

fn main() {
    let clock = SystemClock::default();
    let pool = PoolName::new("data").expect("a name");
    let keys: Vec<String> = (0..1024).map(|i| format!("log/stripe-{i:06}/entries")).collect();
    for count in [3, 16, 256] {
        let target = |i| Target::new(TargetName::new(format!("storage.{i}")).expect("a name"));
        let placement = Placement::new((0..count).map(target).collect()).expect("targets");
        let ours = nanoseconds_each(&clock, |i| {
            black_box(placement.locate(black_box(&pool), &keys[i % keys.len()]));
        });
        let baseline = nanoseconds_each(&clock, |i| {
            black_box(xxhash_rust::xxh3::xxh3_64(keys[i % keys.len()].as_bytes()) % count);
        });
        println!("{count:3} targets: locate {ours:6.1} ns, hash modulo {baseline:5.1} ns");
    }
}
