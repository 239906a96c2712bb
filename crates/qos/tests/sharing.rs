//! Gateways share token buckets by demand, and never use more than the whole.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_qos::sharing::{CLAIM_INTERVAL, Claim, ClaimAges, LEASE, next_claim};

const CASES: SeedCases =
    SeedCases { file: "sharing_seeds.txt", text: include_str!("sharing_seeds.txt") };
const SHARED: &str = "osd.0/gold";

/// A simulated gateway, whose clock runs slightly fast or slow.
struct Gateway {
    name: String,
    /// Seconds of its clock in one second.
    pace: f64,
    seen: ClaimAges,
    /// The fractions that the gateway uses, with the time on its own clock at which it began to
    /// publish them.
    uses: Claim,
    began: Duration,
    demand: f64,
    /// A claim in flight: the state that was read, the start time, and the claim to publish.
    under_way: Option<(u64, Duration, Claim)>,
    next_at: Duration,
    is_dead: bool,
}

/// The shared map: its epoch, and the claim of each gateway.
#[derive(Default)]
struct Map {
    epoch: u64,
    claims: BTreeMap<String, Claim>,
}

impl Gateway {
    fn new(number: u64, random: &mut Random) -> Self {
        Self {
            name: format!("gateway.{number}"),
            pace: 1.0 + (random.below(60) as f64 - 30.0) / 1000.0,
            seen: ClaimAges::default(),
            uses: Claim::default(),
            began: Duration::ZERO,
            demand: random.below(100) as f64 / 100.0,
            under_way: None,
            next_at: Duration::from_millis(random.below(1000)),
            is_dead: false,
        }
    }

    fn clock(&self, now: Duration) -> Duration {
        now.mul_f64(self.pace)
    }

    /// The part that it uses now.
    fn part(&self, now: Duration) -> f64 {
        let holds = !self.is_dead && self.clock(now) < self.began + LEASE;
        let part = self.uses.parts.get(SHARED).map_or(0.0, |part| part.part);
        if holds { part } else { 0.0 }
    }

    /// Reads the map and decides on the next claim.
    fn begin(&mut self, map: &Map, now: Duration) {
        let clock = self.clock(now);
        let own = map.claims.get(&self.name).cloned().unwrap_or_default();
        let others = self.seen.holding(&map.claims, &self.name, clock);
        let next = next_claim(&own, &others, &[(SHARED.to_owned(), self.demand)].into());
        // The gateway stops using the returned part at once.
        for (shared, part) in &mut self.uses.parts {
            let given = next.parts.get(shared).map_or(0.0, |part| part.part);
            part.part = part.part.min(given);
        }
        self.under_way = Some((map.epoch, clock, next));
        self.next_at = now + CLAIM_INTERVAL;
    }

    /// The commit reaches the map. The reply to the gateway may be lost.
    fn arrive(&mut self, map: &mut Map, is_answered: bool) {
        let Some((epoch, began, claim)) = self.under_way.take() else { return };
        if epoch != map.epoch {
            return;
        }
        map.epoch += 1;
        map.claims.insert(self.name.clone(), claim.clone());
        if is_answered {
            (self.uses, self.began) = (claim, began);
        }
    }
}

fn sum(gateways: &[Gateway], now: Duration) -> f64 {
    gateways.iter().map(|gateway| gateway.part(now)).sum()
}

#[test]
fn gateways_together_never_use_more_than_a_bucket_if_they_pause_die_or_are_cut_off() {
    let runs = CASES.each(100, |seed| {
        let mut random = Random::seeded(seed);
        let mut map = Map::default();
        let count = 2 + random.below(3);
        let mut gateways: Vec<_> =
            (0..count).map(|number| Gateway::new(number, &mut random)).collect();
        let mut paused_until = vec![Duration::ZERO; count as usize];
        for step in 0..6000_u64 {
            let now = Duration::from_millis(10 * step);
            for (gateway, paused_until) in gateways.iter_mut().zip(&mut paused_until) {
                if random.one_in(2000) {
                    *paused_until = now + Duration::from_millis(random.below(15_000));
                }
                if random.one_in(20_000) {
                    gateway.is_dead = true;
                }
                if random.one_in(500) {
                    gateway.demand = random.below(100) as f64 / 100.0;
                }
                if gateway.is_dead || now < *paused_until {
                    continue;
                }
                match gateway.under_way {
                    None if now >= gateway.next_at => gateway.begin(&map, now),
                    Some(_) if random.one_in(4) => gateway.arrive(&mut map, !random.one_in(10)),
                    _ => {}
                }
            }
            let sum = sum(&gateways, now);
            assert!(sum <= 1.0 + 1e-9, "{sum} is used after {now:?}");
        }
    });
    assert!(runs > 0);
}

/// Lets gateways work undisturbed for so many seconds.
fn settle(gateways: &mut [Gateway], map: &mut Map, from: Duration, seconds: u64) -> Duration {
    let mut now = from;
    for _ in 0..seconds * 100 {
        now += Duration::from_millis(10);
        for gateway in gateways.iter_mut().filter(|gateway| !gateway.is_dead) {
            if gateway.under_way.is_some() {
                gateway.arrive(map, true);
            } else if now >= gateway.next_at {
                gateway.begin(map, now);
            }
        }
    }
    now
}

#[test]
fn fractions_follow_demand_and_other_gateways_take_over_that_of_a_dead_one() {
    let mut random = Random::seeded(1);
    let mut gateways: Vec<_> = (0..3).map(|number| Gateway::new(number, &mut random)).collect();
    let mut map = Map::default();
    for (gateway, demand) in gateways.iter_mut().zip([0.3, 0.1, 0.0]) {
        gateway.demand = demand;
    }
    let now = settle(&mut gateways, &mut map, Duration::ZERO, 10);
    let parts: Vec<_> = gateways.iter().map(|gateway| gateway.part(now)).collect();
    assert!((parts[0] - 0.75).abs() < 0.05 && (parts[1] - 0.25).abs() < 0.05, "{parts:?}");
    assert!(parts[2] > 0.0, "a gateway without demand has something to begin with: {parts:?}");
    gateways[0].is_dead = true;
    let now = settle(&mut gateways, &mut map, now, 12);
    let part = gateways[1].part(now);
    assert!(part > 0.9, "{part}");
}

#[test]
fn a_gateway_that_ignored_its_lease_would_break_the_invariant() {
    let mut random = Random::seeded(1);
    let mut gateways: Vec<_> = (0..2).map(|number| Gateway::new(number, &mut random)).collect();
    let mut map = Map::default();
    gateways[0].demand = 1.0;
    gateways[1].demand = 1.0;
    let now = settle(&mut gateways, &mut map, Duration::ZERO, 10);
    let kept = gateways[0].part(now);
    gateways[0].is_dead = true;
    let now = settle(&mut gateways, &mut map, now, 12);
    // If the first gateway had gone on using its claim, the two gateways would use more than the
    // whole bucket.
    assert!(kept + gateways[1].part(now) > 1.2);
}
