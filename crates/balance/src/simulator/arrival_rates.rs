//! `ArrivalRates`: how many operations a second each unit of a simulation has.

use nacre_clock::Random;

use super::{Arrivals, Distribution};

/// How many operations a second each unit has.
#[derive(Debug)]
pub(super) struct ArrivalRates {
    usual: Vec<f64>,
    crowd: Option<Crowd>,
    reads_share: f64,
}

#[derive(Debug)]
struct Crowd {
    from_seconds: f64,
    to_seconds: f64,
    units: Vec<usize>,
    factor: f64,
}

impl ArrivalRates {
    /// The rates of some units. The same seed gives the same rates.
    pub fn new(arrivals: &Arrivals, units: usize, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let mean = arrivals.per_unit_per_second;
        let (mut usual, mut crowd) = (vec![mean; units], None);
        match arrivals.distribution {
            Distribution::Uniform => {}
            Distribution::Zipf { exponent } => {
                let shares: Vec<_> = (1..=units).map(|k| (k as f64).powf(-exponent)).collect();
                let sum: f64 = shares.iter().sum();
                for (unit, share) in shuffled(units, &mut random).into_iter().zip(shares) {
                    usual[unit] = mean * units as f64 * share / sum;
                }
            }
            Distribution::FlashCrowd { from_seconds, to_seconds, units: wanted, factor } => {
                let mut chosen = shuffled(units, &mut random);
                chosen.truncate(wanted);
                crowd = Some(Crowd { from_seconds, to_seconds, units: chosen, factor });
            }
        }
        Self { usual, crowd, reads_share: arrivals.reads_share }
    }

    /// The share of reads.
    pub fn reads_share(&self) -> f64 {
        self.reads_share
    }

    /// Whether the crowd is there.
    pub fn is_crowded(&self, at_seconds: f64) -> bool {
        let is_there = |crowd: &Crowd| (crowd.from_seconds..crowd.to_seconds).contains(&at_seconds);
        self.crowd.as_ref().is_some_and(is_there)
    }

    /// The rates with or without the crowd.
    pub fn at(&self, at_seconds: f64) -> Vec<f64> {
        let mut rates = self.usual.clone();
        if let Some(crowd) = self.crowd.as_ref().filter(|_| self.is_crowded(at_seconds)) {
            crowd.units.iter().for_each(|unit| rates[*unit] *= crowd.factor);
        }
        rates
    }
}

/// The numbers below `count` in some order (Fisher and Yates).
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    order
}
