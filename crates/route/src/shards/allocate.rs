//! Divides memory among the caches of tenants by their miss-ratio curves.

use super::MissRatioCurve;

/// For each cache size from 0 to `units` units: the misses a second of a tenant.
fn misses(curve: &MissRatioCurve, rate: f64, units: usize, unit_blocks: u64) -> Vec<f64> {
    (0..=units as u64).map(|unit| rate * curve.miss_ratio(unit * unit_blocks)).collect()
}

/// Divides `units` units of cache memory among tenants so that few requests miss. A unit has
/// `unit_blocks` blocks. A tenant is given by its miss-ratio curve and its requests a second. The
/// result is the number of units of each tenant.
///
/// Each unit goes to the tenant whose misses fall most along the lower convex hull of its curve.
/// This is fast. The result is optimal if all shares lie at corners of the hulls, even if the
/// curves are not convex.
pub fn allocate_by_hull(
    tenants: &[(MissRatioCurve, f64)],
    units: usize,
    unit_blocks: u64,
) -> Vec<usize> {
    let mut segments = vec![];
    for (tenant, (curve, rate)) in tenants.iter().enumerate() {
        let misses = misses(curve, *rate, units, unit_blocks);
        for pair in hull(&misses).windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let gain = (misses[from] - misses[to]) / (to - from) as f64;
            segments.push((gain, tenant, to - from));
        }
    }
    // The segment that saves the most misses comes first. A hull is convex, so the segments of one
    // tenant stay in order.
    segments.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut shares, mut left) = (vec![0; tenants.len()], units);
    for (gain, tenant, length) in segments {
        let taken = length.min(left);
        if gain > 0.0 {
            shares[tenant] += taken;
            left -= taken;
        }
    }
    shares
}

/// The corners of the lower convex hull of a curve.
fn hull(misses: &[f64]) -> Vec<usize> {
    let mut corners: Vec<usize> = vec![];
    for at in 0..misses.len() {
        while let [.., before, last] = corners.as_slice() {
            let slope = |a: usize, b: usize| (misses[b] - misses[a]) / (b - a) as f64;
            if slope(*before, *last) < slope(*last, at) {
                break;
            }
            corners.pop();
        }
        corners.push(at);
    }
    corners
}

/// Like [`allocate_by_hull`], but the fewest possible requests miss. It uses dynamic programming,
/// and its time grows with the square of `units`.
pub fn allocate_exactly(
    tenants: &[(MissRatioCurve, f64)],
    units: usize,
    unit_blocks: u64,
) -> Vec<usize> {
    // `best[n]` is the fewest misses of the tenants handled so far with `n` units together.
    // `choices` holds, for each of these tenants and each `n`, the share of that tenant.
    let mut best = vec![0.0; units + 1];
    let mut choices = vec![];
    for (curve, rate) in tenants {
        let own = misses(curve, *rate, units, unit_blocks);
        let choose = |total: usize| {
            let with = |share: usize| (best[total - share] + own[share], share);
            let all = (0..=total).map(with);
            all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
        };
        let chosen: Vec<(f64, usize)> = (0..=units).map(choose).collect();
        best = chosen.iter().map(|(misses, _)| *misses).collect();
        choices.push(chosen);
    }
    let mut left = units;
    let mut shares: Vec<usize> = choices
        .iter()
        .rev()
        .map(|chosen| {
            let share = chosen[left].1;
            left -= share;
            share
        })
        .collect();
    shares.reverse();
    shares
}
