//! Computes the exact miss-ratio curve by Mattson's stack distances (1970). Tests compare
//! [`super::Shards`] with it.

use std::collections::{BTreeMap, HashMap};

use super::MissRatioCurve;
use super::last_uses::LastUses;

/// Computes the exact miss-ratio curve.
#[derive(Debug, Default)]
pub struct ExactCurve {
    /// When each block was used last.
    last: HashMap<u64, usize>,
    uses: LastUses,
    histogram: BTreeMap<u64, f64>,
    requests: u64,
}

impl ExactCurve {
    /// Adds a request to the curve. Memory grows by four bytes for each request and about forty
    /// bytes for each block. At most 2^32 blocks are possible.
    pub fn request(&mut self, block: u64) {
        self.requests += 1;
        if let Some(last) = self.last.get(&block).copied() {
            *self.histogram.entry(self.uses.since(last).into()).or_default() += 1.0;
            self.uses.remove(last);
        }
        self.last.insert(block, self.uses.add());
    }

    /// The curve of the requests so far.
    pub fn curve(&self) -> MissRatioCurve {
        MissRatioCurve::of(&self.histogram, self.requests as f64)
    }
}
