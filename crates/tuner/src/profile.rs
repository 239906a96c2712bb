//! The cost of transactions on an engine: measured for some transactions, computed for all others.
//!
//! For each kind of access and for several sizes, two transactions are measured: one makes the
//! access once, the other [`MANY`] times. Each is measured alone, and with [`DEPTH`] transactions
//! in flight. The difference between the two transactions gives the cost of one access. What
//! remains is the base cost of a transaction without accesses. A transaction costs the base cost
//! plus the costs of its accesses.
//!
//! The costs for other sizes, and for other numbers of transactions in flight, are interpolated:
//! linearly between two sizes, geometrically between one transaction and [`DEPTH`] transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::probe::{MAX_ATTRIBUTE_BYTES, Probe, Prober};
use crate::shape::{Access, Shape};
use crate::workbench::Workbench;

/// The version of the stored form of a profile. It rises whenever the form or its meaning changes.
const FORMAT: u32 = 1;
/// Accesses of the transactions that do it often.
const MANY: u8 = 4;
/// The number of transactions in flight in the second series of measurements.
const DEPTH: usize = 32;
/// Sizes that are measured.
const SIZES: [usize; 5] = [16, 1024, 4096, 16384, 131_072];
/// The least cost of an access in seconds. A difference of two measurements can be even lower, or
/// negative, because of noise.
const LEAST_SECONDS: f64 = 1e-8;

/// The measured costs of an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    format: u32,
    /// The engine that was measured.
    pub engine: Fingerprint,
    depths: Vec<Depth>,
}

/// The costs with a certain number of transactions in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Depth {
    depth: usize,
    /// The time of a transaction that reads nothing, in seconds. The next field is for a
    /// transaction that writes almost nothing.
    read_seconds: f64,
    write_seconds: f64,
    /// The cost of each access, by its size, in the order of sizes.
    added: BTreeMap<Access, Vec<Point>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Point {
    bytes: usize,
    seconds: f64,
}

/// Measurements of one access of one size: once and many times.
struct Pair {
    access: Access,
    bytes: usize,
    once: f64,
    many: f64,
}

impl Pair {
    /// The cost of one more access, from these two measurements alone.
    fn slope(&self) -> f64 {
        (self.many - self.once) / f64::from(MANY - 1)
    }

    /// How much each access adds to a transaction that takes `base` seconds without accesses: the
    /// mean of both measurements.
    fn added(&self, base: f64) -> f64 {
        let (once, many) = (self.once - base, (self.many - base) / f64::from(MANY));
        ((once + many) / 2.0).max(LEAST_SECONDS)
    }
}

impl Profile {
    /// Measures an engine with about 150 kinds of transactions, each for the time `span`. Calls
    /// `progress` with the share of the work that is done.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn measure(
        bench: &Workbench,
        engine: Fingerprint,
        span: Duration,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Self> {
        let mut depths = Vec::new();
        for (at, depth) in [1, DEPTH].into_iter().enumerate() {
            let begun = at as f64 / 2.0;
            let step = &mut |share: f64| progress(begun + share / 2.0);
            depths.push(Depth::measure(bench, depth, span, step).await?);
        }
        Ok(Self { format: FORMAT, engine, depths })
    }

    /// The time in seconds for each transaction with the accesses of `shape`, if `concurrency` of
    /// them are in flight: the average time between the ends of two successive transactions.
    pub fn seconds(&self, shape: &Shape, concurrency: usize) -> f64 {
        let [alone, deep] = [0, 1].map(|at| self.depths[at].seconds(shape));
        let share = (concurrency as f64).ln() / (DEPTH as f64).ln();
        alone * (deep / alone).powf(share.clamp(0.0, 1.0))
    }

    /// The profile as text.
    ///
    /// # Errors
    /// None that a measured profile can have.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Reads what [`Profile::to_json`] has written.
    ///
    /// # Errors
    /// `Invalid` if it is something else or of another release.
    pub fn from_json(text: &str) -> Result<Self> {
        let unusable = |what: String| {
            Error::invalid(format!("this is not a profile of an engine: {what}"))
                .hint("measure one with `nacre brados profile`")
        };
        let profile: Self =
            serde_json::from_str(text).map_err(|error| unusable(error.to_string()))?;
        let is_whole = |depth: &Depth| {
            Access::ALL
                .iter()
                .all(|access| depth.added.get(access).is_some_and(|points| !points.is_empty()))
        };
        match profile.format == FORMAT
            && profile.depths.len() == 2
            && profile.depths.iter().all(is_whole)
        {
            true => Ok(profile),
            false => Err(unusable("it is of another release".to_owned())),
        }
    }
}

impl Depth {
    async fn measure(
        bench: &Workbench,
        depth: usize,
        span: Duration,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Self> {
        let mut pairs = Vec::new();
        let mut read_seconds = f64::INFINITY;
        for (at, bytes) in SIZES.into_iter().enumerate() {
            let prober = Prober::prepare(bench, depth, bytes).await?;
            let nothing = Probe { access: None, count: 0, bytes };
            read_seconds = prober.seconds(nothing, span).await?.min(read_seconds);
            for access in Access::ALL.into_iter().filter(|access| is_tried(*access, bytes)) {
                let probe = |count| Probe { access: Some(access), count, bytes };
                let once = prober.seconds(probe(1), span).await?;
                let many = prober.seconds(probe(MANY), span).await?;
                pairs.push(Pair { access, bytes: probe(1).carried(), once, many });
            }
            prober.clean().await?;
            progress((at + 1) as f64 / SIZES.len() as f64);
        }
        Ok(Self::of(depth, read_seconds, &pairs))
    }

    fn of(depth: usize, read_seconds: f64, pairs: &[Pair]) -> Self {
        let writes = pairs.iter().filter(|pair| pair.access.writes() && pair.bytes == SIZES[0]);
        let bases = writes.map(|pair| pair.once - pair.slope()).filter(|base| *base > 0.0);
        let write_seconds = nacre_load::median(bases.collect());
        let mut added: BTreeMap<Access, Vec<Point>> = BTreeMap::new();
        for pair in pairs {
            let base = if pair.access.writes() { write_seconds } else { read_seconds };
            let point = Point { bytes: pair.bytes, seconds: pair.added(base) };
            added.entry(pair.access).or_default().push(point);
        }
        Self { depth, read_seconds, write_seconds, added }
    }

    fn seconds(&self, shape: &Shape) -> f64 {
        let base = if shape.writes() { self.write_seconds } else { self.read_seconds };
        base + shape
            .touches
            .iter()
            .map(|(access, bytes)| self.of_access(*access, *bytes))
            .sum::<f64>()
    }

    /// The cost in seconds of one more access of `bytes` bytes. It is interpolated between two
    /// measured sizes. For greater sizes it is extrapolated from the last two, and for lesser sizes
    /// it is the cost of the first.
    fn of_access(&self, access: Access, bytes: usize) -> f64 {
        let Some(points) = self.added.get(&access) else { return LEAST_SECONDS };
        let behind = points.iter().position(|point| point.bytes >= bytes);
        let (from, to) = match behind {
            Some(0) => return points[0].seconds,
            Some(at) => (points[at - 1], points[at]),
            None if points.len() == 1 => return points[0].seconds,
            None => (points[points.len() - 2], points[points.len() - 1]),
        };
        let slope = (to.seconds - from.seconds) / (to.bytes - from.bytes) as f64;
        (from.seconds + slope * (bytes - from.bytes) as f64).max(LEAST_SECONDS)
    }
}

/// Whether an access is measured with values of this size.
fn is_tried(access: Access, bytes: usize) -> bool {
    match access {
        Access::AttributeGet | Access::AttributeSet => bytes <= MAX_ATTRIBUTE_BYTES,
        _ => access.has_size() || bytes == SIZES[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made-up costs for tests. A read costs one microsecond plus one microsecond for each
    /// kilobyte. A write costs ten times as much.
    fn depth(depth: usize) -> Depth {
        let seconds = |access: Access, bytes: usize| {
            let micros = 1.0 + bytes as f64 / 1000.0;
            if access.writes() { micros * 1e-5 } else { micros * 1e-6 }
        };
        let mut pairs = Vec::new();
        for bytes in SIZES {
            for access in Access::ALL.into_iter().filter(|access| is_tried(*access, bytes)) {
                let base = if access.writes() { 1e-4 } else { 2e-5 };
                let of = |count: u8| base + f64::from(count) * seconds(access, bytes);
                pairs.push(Pair { access, bytes, once: of(1), many: of(MANY) });
            }
        }
        Depth::of(depth, 2e-5, &pairs)
    }

    fn is_about(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.01
    }

    #[test]
    fn a_transaction_costs_its_base_plus_its_accesses() {
        let profile = depth(1);
        let reads = Shape { touches: vec![(Access::MapGet, 2000), (Access::MapGet, 2000)] };
        assert!(is_about(profile.seconds(&reads), 2e-5 + 2.0 * 3e-6));
        let writes = Shape { touches: vec![(Access::MapGet, 2000), (Access::MapSet, 100_000)] };
        assert!(is_about(profile.seconds(&writes), 1e-4 + 3e-6 + 101e-5));
    }

    #[test]
    fn costs_outside_the_measured_sizes_are_extrapolated() {
        let profile = depth(1);
        let least = profile.of_access(Access::MapSet, 16);
        assert_eq!(profile.of_access(Access::MapSet, 0), least);
        assert!(is_about(profile.of_access(Access::MapSet, 1_000_000), 1001e-5));
    }

    #[test]
    fn a_written_profile_can_be_read_and_any_other_text_is_refused() {
        let engine = Fingerprint {
            engine: "test".into(),
            device: "none".into(),
            cpus: 1,
            version: "0".into(),
        };
        let profile = Profile { format: FORMAT, engine, depths: vec![depth(1), depth(DEPTH)] };
        let text = profile.to_json().unwrap();
        let read = Profile::from_json(&text).unwrap();
        let shape = Shape { touches: vec![(Access::StreamAppend, 5000)] };
        assert!(is_about(read.seconds(&shape, 32), profile.seconds(&shape, 32)));
        for wrong in [
            text.replace("\"format\": 1", "\"format\": 2"),
            "{}".into(),
            text.replace("map-get", "map-guess"),
        ] {
            assert!(Profile::from_json(&wrong).is_err());
        }
    }
}
