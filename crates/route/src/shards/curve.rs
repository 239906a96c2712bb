//! `MissRatioCurve`: the fraction of requests that an LRU cache of each size misses.

use std::collections::BTreeMap;

use nacre_object::{Error, Result};

use crate::limits::MAX_CURVE_STEPS;

/// The miss ratio of an LRU cache of each size.
#[derive(Debug, Clone, PartialEq)]
pub struct MissRatioCurve {
    /// Pairs of a cache size in blocks and the miss ratio from this size on, in ascending order of
    /// size. Below the first size the miss ratio is 1.
    steps: Vec<(u64, f64)>,
}

impl MissRatioCurve {
    /// Computes the curve from a histogram of reuse distances. The reuse distance of a request is
    /// the number of other blocks used since the last use of its block. A request with the distance
    /// `d` hits in a cache of more than `d` blocks.
    pub(super) fn of(histogram: &BTreeMap<u64, f64>, total: f64) -> Self {
        let mut hits = 0.0;
        let step = |(distance, weight): (&u64, &f64)| {
            hits += weight;
            let ratio = if total > 0.0 { 1.0 - hits / total } else { 1.0 };
            (distance.saturating_add(1), ratio.clamp(0.0, 1.0))
        };
        Self { steps: histogram.iter().map(step).collect() }
    }

    /// The curve with these steps: pairs of a cache size in blocks, and the miss ratio from this size
    /// on. Below the first size the miss ratio is 1.
    ///
    /// # Errors
    /// `Invalid` if there are too many steps, if sizes do not rise, or if a ratio is not between 0
    /// and 1.
    pub fn from_steps(steps: Vec<(u64, f64)>) -> Result<Self> {
        let wrong = |what: String| Err(Error::invalid(what).during("miss-ratio curve"));
        if steps.len() > MAX_CURVE_STEPS {
            return wrong(format!("a curve cannot have {} steps", steps.len()));
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return wrong(format!("the size {} follows the size {}", pair[1].0, pair[0].0));
        }
        match steps.iter().find(|(_, ratio)| !(0.0..=1.0).contains(ratio)) {
            Some((size, ratio)) => wrong(format!("the miss ratio at size {size} is {ratio}")),
            None => Ok(Self { steps }),
        }
    }

    /// The mean of several curves, each with a weight: the miss ratio of requests that go to one of
    /// several caches of the same size. Without any weight every request misses.
    pub fn mean(curves: &[(Self, f64)]) -> Self {
        let sizes = curves.iter().flat_map(|(curve, _)| curve.steps.iter().map(|(size, _)| *size));
        let sizes: std::collections::BTreeSet<u64> = sizes.collect();
        let total: f64 = curves.iter().map(|(_, weight)| weight).sum();
        let ratio = |size: u64| {
            let misses = curves.iter().map(|(curve, weight)| weight * curve.miss_ratio(size));
            if total > 0.0 { (misses.sum::<f64>() / total).clamp(0.0, 1.0) } else { 1.0 }
        };
        Self { steps: sizes.into_iter().map(|size| (size, ratio(size))).collect() }
    }

    /// The fraction of requests that a cache of so many blocks misses, from 0 to 1.
    pub fn miss_ratio(&self, blocks: u64) -> f64 {
        let reached = self.steps.partition_point(|(size, _)| *size <= blocks);
        reached.checked_sub(1).map_or(1.0, |last| self.steps[last].1)
    }
}
