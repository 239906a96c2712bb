//! What the layouts of a running class would take for what it is asked, and what changing to another would.
//!
//! The class's own layout is judged as it is written; the others are those there are to choose from, with
//! its stripes, which are for ever.

use nacre_brados::{Compiled, Layout, compile, with_layout};
use nacre_object::{Error, Result};

use crate::candidates::Candidates;
use crate::observed::Objects;
use crate::predict;
use crate::profile::Profile;
use crate::rechoose::{Estimate, Predicted};
use crate::shape::{Access, Shape};
use crate::tune::PREDICTION_NOISE;
use crate::workload::Workload;

/// Layouts that are judged, the plainest first: some milliseconds each.
const MAX_JUDGED: usize = 128;
/// Rows that a migration moves in a transaction, as `migrate.lua` of `nacre-brados` has it.
const ROWS_AT_ONCE: u64 = 512;
/// A row is moved into the map, then to where it belongs.
const MOVES: f64 = 2.0;

/// What the layouts of a program take for a workload, by an engine's profile, and what rewriting its objects
/// would. It computes for up to a second or two.
///
/// # Errors
/// `Invalid` if the source is no program; whatever a request of the workload fails with.
pub fn estimate(
    source: &str,
    workload: &Workload,
    profile: &Profile,
    objects: Objects,
) -> Result<Estimate> {
    let compiled = compile(source).map_err(|errors| Error::invalid(errors.to_string()))?;
    let present = compiled.analysis.program.layout();
    let predict = |layout: &Layout| -> Result<Predicted> {
        let seconds = predict::seconds(&with_layout(source, layout, &[]), workload, profile)?;
        Ok(Predicted { layout: layout.to_string(), seconds })
    };
    let own = predict(&present)?;
    let others = layouts(&compiled, source, &present, workload);
    let mut all: Vec<Predicted> = others.iter().map(predict).collect::<Result<_>>()?;
    all.push(own.clone());
    let best = all.iter().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
    // What is not told from the best by a prediction is as good; what is there already is plainest.
    let is_good = |one: &&Predicted| one.seconds <= best * (1.0 + PREDICTION_NOISE);
    let best = [&own].into_iter().chain(&all).find(is_good).unwrap_or(&own).clone();
    let rewrite_seconds = rewrite_seconds(workload.longest_bytes(), profile, objects);
    Ok(Estimate { present: own, best, rewrite_seconds, rows: objects.all_rows() })
}

/// The layouts there are to choose from, besides the present one.
fn layouts(
    compiled: &Compiled,
    source: &str,
    present: &Layout,
    workload: &Workload,
) -> Vec<Layout> {
    let candidates = Candidates::of(compiled, workload.longest_bytes()).layouts.into_iter();
    let others = candidates.filter(|layout| layout != present);
    others
        .filter(|layout| compile(&with_layout(source, layout, &[])).is_ok())
        .take(MAX_JUDGED)
        .collect()
}

/// Seconds to move all rows of the objects, each of so many bytes, one after another. Their number has no
/// bound here: a workload fills its objects only as far as makes other transactions.
fn rewrite_seconds(bytes: usize, profile: &Profile, objects: Objects) -> f64 {
    let (objects, rows) = objects.assumed();
    let touches = [(Access::MapGet, bytes), (Access::MapRemove, 0), (Access::MapSet, bytes)];
    let step = |rows: u64| {
        let touches = touches.into_iter().cycle().take(touches.len() * rows as usize);
        profile.seconds(&Shape { touches: touches.collect() }, 1)
    };
    let object = (rows / ROWS_AT_ONCE) as f64 * step(ROWS_AT_ONCE) + step(rows % ROWS_AT_ONCE);
    MOVES * objects as f64 * object
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::observed::Rows;

    /// An engine where everything takes a millisecond.
    fn profile() -> Profile {
        let added: Map<_, _> = Access::ALL
            .iter()
            .map(|access| {
                let name = json!(access).as_str().unwrap().to_owned();
                (name, json!([{ "bytes": 16, "seconds": 1e-3 }]))
            })
            .collect();
        let depth = |depth: u32| json!({ "depth": depth, "read_seconds": 1e-3, "write_seconds": 1e-3, "added": added });
        let engine = Fingerprint {
            engine: "test".into(),
            device: "none".into(),
            cpus: 1,
            version: "0".into(),
        };
        let profile = json!({ "format": 1, "engine": engine, "depths": [depth(1), depth(32)] });
        Profile::from_json(&profile.to_string()).unwrap()
    }

    #[test]
    fn rewriting_takes_as_much_longer_as_there_are_more_rows() {
        let seconds = |count: u64, rows: u64| {
            let objects = Objects { count: Some(count), rows: Rows::About(rows) };
            rewrite_seconds(100, &profile(), objects)
        };
        let one = seconds(1, ROWS_AT_ONCE);
        assert!(one > 0.0);
        for (count, rows) in [(1, 1000), (1000, 1), (30, 10_000)] {
            let share = seconds(count, rows * ROWS_AT_ONCE) / (count * rows) as f64 / one;
            assert!((0.9..1.1).contains(&share), "{count} objects: {share}");
        }
    }

    #[test]
    fn what_rewriting_takes_is_known_if_the_rows_are() {
        let source = "state do
  table :kv, [:at:int] => [:value:bytes]
  interface input, :put, [:at:int, :value:bytes]
end
bloom do
  kv <+- put
end
";
        let workload = Workload::parse("fill 9 put next, bytes(9)\nmix 1 put next, bytes(9)");
        let (workload, profile) = (workload.unwrap(), profile());
        for (count, rows, all) in [
            (Some(3), Rows::About(1_000_000), Some(3_000_000)),
            (Some(3), Rows::MoreThan(1_000_000), None),
            (Some(3), Rows::Unknown, None),
            (None, Rows::About(5), None),
            (Some(0), Rows::Unknown, Some(0)),
        ] {
            let objects = Objects { count, rows };
            let estimate = estimate(source, &workload, &profile, objects).unwrap();
            assert_eq!(estimate.rows, all, "{objects:?}");
            assert_eq!(estimate.rewrite_seconds, rewrite_seconds(9, &profile, objects));
        }
    }
}
