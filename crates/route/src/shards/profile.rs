//! `ReadProfile`: how one tenant reads at present. It has the rate of the tenant's reads, and their
//! miss-ratio curve.
//!
//! A cache is divided by the present load, so old reads must count less than new ones. Each second
//! the weight of all earlier reads falls, and the rate moves towards the rate of that second. The
//! caller calls [`ReadProfile::tick`] once a second, because this crate reads no clock.
//!
//! A sample of fixed size samples fewer and fewer blocks while new blocks come, and never more
//! again. So each sample is replaced after some minutes. Its successor has then already seen all
//! reads of half of that time.

use nacre_object::Result;

use super::{MissRatioCurve, Shards};

/// How many blocks a sample holds. The mean error of a curve is then 1%, and a sample takes about
/// 300 KB.
const MAX_SAMPLES: usize = 2048;
/// The weight of a read falls by this factor each second: to half after 10 s.
const WEIGHT_OF_LAST_SECOND: f64 = 0.933;
/// The part of the last second in the rate. After 15 s without reads the rate is below 4% of what
/// it was.
const RATE_OF_LAST_SECOND: f64 = 0.2;
/// After this many seconds the younger sample takes the place of the older one.
const SAMPLE_SECONDS: u32 = 300;

/// The reads of one tenant.
#[derive(Debug)]
pub struct ReadProfile {
    /// The sample from which curves are computed.
    older: Shards,
    /// Its successor.
    younger: Shards,
    seconds: u32,
    seed: u64,
    reads: u64,
    reads_per_second: f64,
}

impl ReadProfile {
    /// A tenant that has read nothing. `seed` determines which blocks are sampled.
    ///
    /// # Errors
    /// None in practice: those of [`Shards::new`].
    pub fn new(seed: u64) -> Result<Self> {
        let (older, younger) = (Shards::new(MAX_SAMPLES, seed)?, Shards::new(MAX_SAMPLES, seed)?);
        Ok(Self { older, younger, seconds: 0, seed, reads: 0, reads_per_second: 0.0 })
    }

    /// The tenant has read these blocks in one request.
    pub fn read(&mut self, blocks: impl Iterator<Item = u64>) {
        self.reads += 1;
        for block in blocks {
            self.older.request(block);
            self.younger.request(block);
        }
    }

    /// A second has passed.
    ///
    /// # Errors
    /// None in practice: those of [`Shards::new`].
    pub fn tick(&mut self) -> Result<()> {
        let reads = std::mem::take(&mut self.reads) as f64;
        self.reads_per_second += RATE_OF_LAST_SECOND * (reads - self.reads_per_second);
        self.older.fade(WEIGHT_OF_LAST_SECOND);
        self.younger.fade(WEIGHT_OF_LAST_SECOND);
        self.seconds += 1;
        if self.seconds >= SAMPLE_SECONDS {
            self.seconds = 0;
            let fresh = Shards::new(MAX_SAMPLES, self.seed)?;
            self.older = std::mem::replace(&mut self.younger, fresh);
        }
        Ok(())
    }

    /// How many reads the tenant sends in a second, at present.
    pub fn reads_per_second(&self) -> f64 {
        self.reads_per_second
    }

    /// The miss-ratio curve of the tenant's reads, mainly of the last half minute.
    pub fn curve(&self) -> MissRatioCurve {
        self.older.curve()
    }
}
