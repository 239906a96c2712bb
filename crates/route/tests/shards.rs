//! Compares SHARDS with the exact curve on generated traces. Its errors must stay within the known
//! errors of SHARDS on a public trace. Also tests how memory is divided among tenants.

use nacre_clock::Random;
use nacre_object::ErrorKind;
use nacre_route::{ExactCurve, MissRatioCurve, Shards, allocate_by_hull, allocate_exactly};

const REQUESTS: u64 = 113_872;
const BLOCKS: u64 = 48_974;
const POINTS: u64 = 100;
const SEEDS: u64 = 10;
/// The test averages the worst error of ten samples over this many generated traces, because that
/// error varies by a third between traces.
const TRACES: u64 = 3;

/// Generates a trace with as many requests and blocks as the public trace on which the errors of
/// SHARDS are known. Each request either uses a new block or repeats an earlier request. For a
/// repetition, each power-of-two range of distances back is equally likely.
fn trace(seed: u64) -> Vec<u64> {
    let mut random = Random::seeded(seed);
    let mut all: Vec<u64> = vec![];
    for number in 0..REQUESTS {
        let doublings = random.below(17);
        let ago = (1 << doublings) + random.below(1 << doublings);
        let is_new = random.below(REQUESTS) < BLOCKS;
        match number.checked_sub(ago) {
            Some(earlier) if !is_new => all.push(all[earlier as usize]),
            _ => all.push(number),
        }
    }
    all
}

fn error(estimated: &MissRatioCurve, exact: &MissRatioCurve, blocks: u64) -> f64 {
    let sizes = (1..=POINTS).map(|point| point * blocks / POINTS);
    let errors = sizes.map(|size| (estimated.miss_ratio(size) - exact.miss_ratio(size)).abs());
    errors.sum::<f64>() / POINTS as f64
}

/// The error of each of ten samples of one trace.
fn errors(trace: &[u64], max_samples: usize) -> Vec<f64> {
    let mut exact = ExactCurve::default();
    trace.iter().for_each(|block| exact.request(*block));
    let exact = exact.curve();
    let mut distinct = trace.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let of_sample = |seed| {
        let mut shards = Shards::new(max_samples, seed).unwrap();
        trace.iter().for_each(|block| shards.request(*block));
        assert!(shards.samples() <= max_samples);
        error(&shards.curve(), &exact, distinct.len() as u64)
    };
    (0..SEEDS).map(of_sample).collect()
}

#[test]
fn sampling_errors_stay_within_those_on_a_public_trace() {
    let table = [(512, 0.014, 0.032), (2048, 0.009, 0.024), (8192, 0.005, 0.008)];
    let traces: Vec<_> = (1..=TRACES).map(trace).collect();
    for (max_samples, mean, worst) in table {
        let all: Vec<_> = traces.iter().map(|trace| errors(trace, max_samples)).collect();
        let most = |errors: &Vec<f64>| errors.iter().copied().fold(0.0, f64::max);
        let found_mean = all.iter().flatten().sum::<f64>() / (SEEDS * TRACES) as f64;
        let found_worst = all.iter().map(most).sum::<f64>() / TRACES as f64;
        println!("{max_samples} samples: mean {found_mean:.4}, worst of ten {found_worst:.4}");
        assert!(found_mean <= mean && found_worst <= worst, "{max_samples}: {all:?}");
    }
}

#[test]
fn the_exact_curve_equals_the_miss_ratios_of_lru_caches_of_every_size() {
    let mut random = Random::seeded(5);
    let requests: Vec<u64> = (0..600).map(|_| random.below(20) * random.below(3)).collect();
    let mut exact = ExactCurve::default();
    requests.iter().for_each(|block| exact.request(*block));
    for size in 0..45 {
        let (mut cache, mut misses) = (vec![], 0);
        for block in &requests {
            let before = cache.len();
            cache.retain(|other| other != block);
            misses += u32::from(cache.len() == before);
            cache.push(*block);
            if cache.len() > size {
                cache.remove(0);
            }
        }
        let expected = f64::from(misses) / requests.len() as f64;
        assert!((exact.curve().miss_ratio(size as u64) - expected).abs() < 1e-9, "{size} blocks");
    }
}

#[test]
fn a_sample_that_holds_every_block_is_exact() {
    let mut random = Random::seeded(6);
    let (mut exact, mut shards) = (ExactCurve::default(), Shards::new(4096, 9).unwrap());
    for _ in 0..20_000 {
        let block = random.below(50) * random.below(60);
        exact.request(block);
        shards.request(block);
    }
    for size in 0..3000 {
        let (a, b) = (exact.curve().miss_ratio(size), shards.curve().miss_ratio(size));
        assert!(size % 100 != 0 || (a - b).abs() < 1e-9, "{size}: {a} {b}");
    }
    assert_eq!(Shards::new(0, 0).unwrap_err().kind(), ErrorKind::Invalid);
}

/// A curve that falls to nothing at one size, like that of a cyclic scan.
fn cliff(blocks: u64) -> MissRatioCurve {
    let mut exact = ExactCurve::default();
    (0..blocks * 50).for_each(|request| exact.request(request % blocks));
    exact.curve()
}

/// A curve that falls less and less.
fn slope() -> MissRatioCurve {
    let (mut random, mut exact) = (Random::seeded(3), ExactCurve::default());
    (0..20_000).for_each(|_| exact.request(random.below(100) * random.below(100) / 100));
    exact.curve()
}

fn misses(tenants: &[(MissRatioCurve, f64)], shares: &[usize]) -> f64 {
    let own = tenants.iter().zip(shares);
    own.map(|((curve, rate), share)| rate * curve.miss_ratio(*share as u64)).sum()
}

#[test]
fn no_other_distribution_of_memory_misses_less() {
    let tenants = [(cliff(40), 1.0), (slope(), 2.0), (cliff(25), 1.5)];
    let exact = allocate_exactly(&tenants, 70, 1);
    assert_eq!(exact.iter().sum::<usize>(), 70);
    let mut best = f64::MAX;
    for a in 0..=70 {
        for b in 0..=70 - a {
            best = best.min(misses(&tenants, &[a, b, 70 - a - b]));
        }
    }
    assert!((misses(&tenants, &exact) - best).abs() < 1e-9, "{exact:?}");
    let hull = allocate_by_hull(&tenants, 70, 1);
    assert!(hull.iter().sum::<usize>() <= 70);
    assert!(misses(&tenants, &hull) < misses(&tenants, &[24, 23, 23]), "{hull:?}");
}

#[test]
fn a_tenant_whose_curve_is_a_cliff_gets_all_the_memory_it_needs() {
    // The first units save this tenant no misses. An allocation by the curve itself, instead of its
    // convex hull, would never give it any.
    let shares = allocate_by_hull(&[(cliff(40), 10.0), (slope(), 1.0)], 60, 1);
    assert_eq!((shares[0], shares[1]), (40, 20));
}
