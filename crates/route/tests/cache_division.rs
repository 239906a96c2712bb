//! Divides caches among simulated tenants by their reads.

use std::collections::BTreeMap;

use nacre_clock::Random;
use nacre_object::{ErrorKind, TenantName};
use nacre_route::{CacheDemand, ExactCurve, MissRatioCurve, ReadProfile, divide_cache};

const UNITS: usize = 64;
const UNIT_BLOCKS: u64 = 64;

/// A tenant that reads random blocks of its own, each equally likely.
struct Tenant {
    profile: ReadProfile,
    random: Random,
    first: u64,
    blocks: u64,
}

impl Tenant {
    fn new(number: u64, blocks: u64) -> Self {
        let profile = ReadProfile::new(number).unwrap();
        Self { profile, random: Random::seeded(number), first: number << 32, blocks }
    }

    fn second(&mut self, reads: u64) {
        for _ in 0..reads {
            let block = self.first + self.random.below(self.blocks);
            self.profile.read([block].into_iter());
        }
        self.profile.tick().unwrap();
    }

    fn demand(&self) -> CacheDemand {
        let reads_per_second = self.profile.reads_per_second();
        CacheDemand { reads_per_second, curve: self.profile.curve() }
    }
}

fn name(text: &str) -> TenantName {
    text.parse().unwrap()
}

fn shares(one: &Tenant, other: &Tenant) -> (usize, usize) {
    let tenants = [(name("one"), vec![one.demand()]), (name("other"), vec![other.demand()])].into();
    let shares = divide_cache(&tenants, &[], UNITS, UNIT_BLOCKS).unwrap();
    (shares[&name("one")], shares[&name("other")])
}

#[test]
fn a_small_working_set_gets_what_it_needs_and_a_large_one_the_rest() {
    let (mut small, mut large) = (Tenant::new(1, 16 * UNIT_BLOCKS), Tenant::new(2, 1 << 20));
    for _ in 0..30 {
        small.second(2000);
        large.second(4000);
    }
    let (small, large) = shares(&small, &large);
    assert!((14..=24).contains(&small), "{small} of {UNITS} units for 16 units of blocks");
    assert!(small + large < UNITS, "a unit stays free for new tenants");
}

#[test]
fn a_tenant_that_stops_gives_its_share_to_the_other_within_15_seconds() {
    let (mut one, mut other) = (Tenant::new(1, 40 * UNIT_BLOCKS), Tenant::new(2, 80 * UNIT_BLOCKS));
    for _ in 0..60 {
        one.second(3000);
        other.second(1000);
    }
    let (before, _) = shares(&one, &other);
    assert!(before >= 30, "{before}");
    for _ in 0..15 {
        one.second(0);
        other.second(1000);
    }
    let (after, gained) = shares(&one, &other);
    assert!(after <= UNITS / 8 && gained >= UNITS * 3 / 4, "{after} and {gained}");
}

#[test]
fn a_profile_follows_a_tenant_whose_working_set_changes() {
    let mut tenant = Tenant::new(3, 32 * UNIT_BLOCKS);
    for _ in 0..60 {
        tenant.second(3000);
    }
    let before = tenant.profile.curve().miss_ratio(8 * UNIT_BLOCKS);
    assert!((before - 0.75).abs() < 0.08, "{before}");
    tenant.blocks = 4 * UNIT_BLOCKS;
    for _ in 0..60 {
        tenant.second(3000);
    }
    let after = tenant.profile.curve().miss_ratio(8 * UNIT_BLOCKS);
    assert!(after < 0.05, "{after}");
}

#[test]
fn a_profile_stays_right_over_many_samples_and_an_endless_scan() {
    let mut tenant = Tenant::new(4, 100);
    for second in 0..1000_u64 {
        tenant.profile.read((0..200).map(|block| (9 << 40) + second * 200 + block));
        tenant.second(200);
    }
    // Half of the blocks are new, and half are read again.
    let ratio = tenant.profile.curve().miss_ratio(4096);
    assert!((ratio - 0.5).abs() < 0.08, "{ratio}");
}

#[test]
fn demands_at_several_nodes_count_by_their_rates() {
    let cliff = |blocks| MissRatioCurve::from_steps(vec![(blocks, 0.0)]).unwrap();
    let demand = |rate, blocks| CacheDemand { reads_per_second: rate, curve: cliff(blocks) };
    let busy = vec![demand(100.0, 30 * UNIT_BLOCKS), demand(1.0, 60 * UNIT_BLOCKS)];
    let idle = vec![demand(10.0, 30 * UNIT_BLOCKS)];
    let tenants = BTreeMap::from([(name("busy"), busy), (name("idle"), idle)]);
    let shares = divide_cache(&tenants, &[], UNITS, UNIT_BLOCKS).unwrap();
    assert_eq!((shares[&name("busy")], shares[&name("idle")]), (33, 30));
    let unnamed = [demand(1000.0, 60 * UNIT_BLOCKS)];
    let shares = divide_cache(&tenants, &unnamed, UNITS, UNIT_BLOCKS).unwrap();
    assert!(shares.values().sum::<usize>() <= 3, "the unnamed tenants need it most: {shares:?}");
}

#[test]
fn curves_and_divisions_out_of_bounds_are_refused() {
    let kind = |steps| MissRatioCurve::from_steps(steps).unwrap_err().kind();
    assert_eq!(kind(vec![(5, 0.5), (5, 0.4)]), ErrorKind::Invalid);
    assert_eq!(kind(vec![(5, f64::NAN)]), ErrorKind::Invalid);
    assert_eq!(kind((0..5000).map(|size| (size, 0.5)).collect()), ErrorKind::Invalid);
    let none = BTreeMap::new();
    for (units, blocks) in [(0, 1), (1, 0), (1 << 20, 1)] {
        let refused = divide_cache(&none, &[], units, blocks).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn fading_keeps_the_curve_of_a_steady_load() {
    let mut random = Random::seeded(7);
    let mut exact = ExactCurve::default();
    let mut profile = ReadProfile::new(7).unwrap();
    for _ in 0..100 {
        for _ in 0..1000 {
            let block = random.below(50) * random.below(60);
            exact.request(block);
            profile.read([block].into_iter());
        }
        profile.tick().unwrap();
    }
    assert!((profile.reads_per_second() - 1000.0).abs() < 1.0);
    let worst = (0..30).map(|step| {
        let size = step * 50;
        (profile.curve().miss_ratio(size) - exact.curve().miss_ratio(size)).abs()
    });
    let worst = worst.fold(0.0, f64::max);
    assert!(worst < 0.06, "{worst}");
}
