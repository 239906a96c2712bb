//! The exact curve, by Mattson's stack distances (1970): what [`super::Shards`] is compared with.

use std::collections::{BTreeMap, HashMap};

use super::MissRatioCurve;

/// Distinct blocks since the last use of each, found with a Fenwick tree over the times of last use.
#[derive(Debug, Default)]
pub struct ExactCurve {
    /// When each block was used last, counted from 1.
    last: HashMap<u64, usize>,
    /// `tree[i]` sums the last uses of the times that the lowest bit of `i` covers.
    tree: Vec<u64>,
    histogram: BTreeMap<u64, f64>,
    requests: u64,
}

impl ExactCurve {
    /// Takes in a request. It keeps eight bytes of each request, and some forty of each block.
    pub fn request(&mut self, block: u64) {
        self.requests += 1;
        if self.tree.is_empty() {
            self.tree.push(0);
        }
        let now = self.tree.len();
        // A new leaf sums what the leaves below it have.
        let lowest = now & now.wrapping_neg();
        let below = self.sum(now - 1) - self.sum(now - lowest);
        self.tree.push(below);
        if let Some(last) = self.last.insert(block, now) {
            let distance = self.sum(now - 1) - self.sum(last);
            *self.histogram.entry(distance).or_default() += 1.0;
            self.add(last, -1);
        }
        self.add(now, 1);
    }

    /// The curve of the requests so far.
    pub fn curve(&self) -> MissRatioCurve {
        MissRatioCurve::of(&self.histogram, self.requests as f64)
    }

    fn sum(&self, mut time: usize) -> u64 {
        let mut sum = 0;
        while time > 0 {
            sum += self.tree[time];
            time &= time - 1;
        }
        sum
    }

    fn add(&mut self, mut time: usize, by: i64) {
        while time < self.tree.len() {
            self.tree[time] = self.tree[time].saturating_add_signed(by);
            time += time & time.wrapping_neg();
        }
    }
}
