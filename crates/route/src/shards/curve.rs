//! `MissRatioCurve`: the fraction of requests that an LRU cache of each size misses.

use std::collections::BTreeMap;

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

    /// The fraction of requests that a cache of so many blocks misses, from 0 to 1.
    pub fn miss_ratio(&self, blocks: u64) -> f64 {
        let reached = self.steps.partition_point(|(size, _)| *size <= blocks);
        reached.checked_sub(1).map_or(1.0, |last| self.steps[last].1)
    }
}
