//! What the layouts of a running class would take for what it is asked, and what changing to another would.
//!
//! The class's own layout is judged as it is written; the others are those there are to choose from, with
//! its stripes, which are for ever.

use nacre_brados::{Compiled, Layout, compile, with_layout};
use nacre_object::{Error, Result};

use crate::candidates::Candidates;
use crate::predict;
use crate::profile::Profile;
use crate::rechoose::{Estimate, Predicted};
use crate::shape::{Access, Shape};
use crate::tune::PREDICTION_NOISE;
use crate::workload::{Line, Workload};

/// Layouts that are judged, the plainest first: some milliseconds each.
const MAX_JUDGED: usize = 128;
/// Rows that a migration moves in a transaction, as `migrate.lua` of `nacre-brados` has it.
const ROWS_AT_ONCE: u64 = 512;
/// A row is moved into the map, then to where it belongs.
const MOVES: f64 = 2.0;

/// What the layouts of a program take for a workload, by an engine's profile. It computes for up to a
/// second or two.
///
/// # Errors
/// `Invalid` if the source is no program; whatever a request of the workload fails with.
pub fn estimate(
    source: &str,
    workload: &Workload,
    profile: &Profile,
    objects: u64,
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
    let rewrite_seconds = rewrite_seconds(workload, profile, objects);
    Ok(Estimate { present: own, best, rewrite_seconds })
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

/// Seconds to move all rows of so many objects, one after another.
fn rewrite_seconds(workload: &Workload, profile: &Profile, objects: u64) -> f64 {
    let rows: u64 = workload.fill.iter().map(|Line { count, .. }| count).sum();
    let bytes = workload.longest_bytes();
    let touches = [(Access::MapGet, bytes), (Access::MapRemove, 0), (Access::MapSet, bytes)];
    let step = |rows: u64| {
        let touches = touches.into_iter().cycle().take(touches.len() * rows as usize);
        profile.seconds(&Shape { touches: touches.collect() }, 1)
    };
    let object = (rows / ROWS_AT_ONCE) as f64 * step(ROWS_AT_ONCE) + step(rows % ROWS_AT_ONCE);
    MOVES * objects as f64 * object
}
