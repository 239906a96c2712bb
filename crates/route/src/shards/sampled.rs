//! `Shards`: SHARDS with a fixed sample size and adjustment (Waldspurger, Park, Garthwaite, Ahmad,
//! FAST 2015).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nacre_object::{Error, Result};

use super::MissRatioCurve;
use super::last_uses::LastUses;
use crate::limits::MAX_SAMPLED_BLOCKS;

/// Past this number of different distances, [`Shards::fade`] merges those that differ little.
const MAX_DISTANCES: usize = 8192;
/// Merged distances keep this many significant bits, so a merged distance is off by less than 2%.
const MERGED_BITS: u32 = 6;
/// [`Shards::fade`] drops distances whose weight has become less than this part of a request.
const LEAST_WEIGHT: f64 = 1e-3;

/// The hash of a block is taken modulo this number (`P` in the paper).
const MODULUS: u64 = 1 << 24;
/// How many times the tree of last uses may have for each sample, in addition to [`LEAST_PLACES`].
const PLACES_PER_SAMPLE: usize = 4;
/// See [`PLACES_PER_SAMPLE`].
const LEAST_PLACES: usize = 1024;

/// Estimates a miss-ratio curve from a sample of bounded size.
///
/// A block is sampled if its hash is below a threshold. If there are too many samples, the
/// threshold is lowered to the largest sampled hash, and the samples with that hash are dropped.
/// Each request is weighted by the inverse of the sampling rate at its time.
#[derive(Debug)]
pub struct Shards {
    max_samples: usize,
    seed: u64,
    threshold: u64,
    /// Sampled blocks, and when each was used last.
    samples: HashMap<u64, usize>,
    by_hash: BTreeSet<(u64, u64)>,
    uses: LastUses,
    /// The weight of the requests with each reuse distance in blocks.
    histogram: BTreeMap<u64, f64>,
    /// Requests so far. Those before a call of [`Shards::fade`] count less.
    requests: f64,
    /// The number of requests as estimated from the samples.
    estimated: f64,
}

impl Shards {
    /// An empty sample. `seed` determines which blocks are sampled.
    ///
    /// # Errors
    /// `Invalid` if `max_samples` is 0 or more than [`MAX_SAMPLED_BLOCKS`].
    pub fn new(max_samples: usize, seed: u64) -> Result<Self> {
        if max_samples == 0 || max_samples > MAX_SAMPLED_BLOCKS {
            return Err(Error::invalid(format!("a curve cannot have {max_samples} samples")).hint(
                format!("use 1 to {MAX_SAMPLED_BLOCKS}; 8192 have an error of half a per cent"),
            ));
        }
        Ok(Self {
            max_samples,
            // Without mixing, seeds that differ in few bits would sample the same blocks in another
            // order.
            seed: mix(seed),
            threshold: MODULUS,
            samples: HashMap::new(),
            by_hash: BTreeSet::new(),
            uses: LastUses::default(),
            histogram: BTreeMap::new(),
            requests: 0.0,
            estimated: 0.0,
        })
    }

    /// How many blocks are sampled.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Adds a request to the sample.
    pub fn request(&mut self, block: u64) {
        self.requests += 1.0;
        let hash = mix(block ^ self.seed) % MODULUS;
        if hash >= self.threshold {
            return;
        }
        let weight = MODULUS as f64 / self.threshold as f64;
        self.estimated += weight;
        match self.samples.get(&block).copied() {
            Some(before) => {
                let distinct = f64::from(self.uses.since(before));
                let distance = (distinct * weight).round() as u64;
                *self.histogram.entry(distance).or_default() += weight;
                self.uses.remove(before);
            }
            None => drop(self.by_hash.insert((hash, block))),
        }
        self.samples.insert(block, self.uses.add());
        if self.samples.len() > self.max_samples {
            self.lower_threshold();
        }
        if self.uses.places() > LEAST_PLACES + PLACES_PER_SAMPLE * self.samples.len() {
            self.renumber();
        }
    }

    /// Drops all samples with the largest hash, and samples no blocks with this hash any more.
    fn lower_threshold(&mut self) {
        let Some((largest, _)) = self.by_hash.last().copied() else { return };
        self.threshold = largest;
        while let Some((hash, block)) = self.by_hash.last().copied() {
            if hash < self.threshold {
                return;
            }
            self.by_hash.remove(&(hash, block));
            if let Some(dropped) = self.samples.remove(&block) {
                self.uses.remove(dropped);
            }
        }
    }

    /// Renumbers the last uses, so that the tree stays proportional to the sample.
    fn renumber(&mut self) {
        let mut blocks: Vec<_> = self.samples.iter().map(|(block, time)| (*time, *block)).collect();
        blocks.sort_unstable();
        self.uses = LastUses::default();
        for (_, block) in blocks {
            self.samples.insert(block, self.uses.add());
        }
    }

    /// Multiplies the weight of all requests so far by `factor`, so that the curve follows later
    /// requests faster. The sampled blocks and the times of their last uses stay.
    pub fn fade(&mut self, factor: f64) {
        self.requests *= factor;
        self.estimated *= factor;
        let is_long = self.histogram.len() > MAX_DISTANCES;
        let mut faded = BTreeMap::new();
        for (distance, weight) in std::mem::take(&mut self.histogram) {
            let weight = weight * factor;
            if weight >= LEAST_WEIGHT {
                let distance = if is_long { merged(distance) } else { distance };
                *faded.entry(distance).or_default() += weight;
            }
        }
        self.histogram = faded;
    }

    /// The curve of the requests so far. The estimated number of requests may differ from the real
    /// number. The difference is added at the distance 0, as in the SHARDS paper. Without this
    /// adjustment the errors are five to ten times larger.
    pub fn curve(&self) -> MissRatioCurve {
        let mut histogram = self.histogram.clone();
        *histogram.entry(0).or_default() += self.requests - self.estimated;
        MissRatioCurve::of(&histogram, self.requests)
    }
}

/// The distance rounded up to [`MERGED_BITS`] significant bits. Rounding up makes no cache look
/// better than it is.
fn merged(distance: u64) -> u64 {
    let unit = 1 << (u64::BITS - distance.leading_zeros()).saturating_sub(MERGED_BITS);
    distance.checked_next_multiple_of(unit).unwrap_or(distance)
}

/// Spreads numbers of blocks evenly (the finalizer of SplitMix64).
fn mix(block: u64) -> u64 {
    let mut mixed = block.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
