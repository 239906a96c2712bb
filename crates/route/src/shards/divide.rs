//! Divides the cache memory of nodes among tenants, by their present reads (sRoute, section 5.3).

use std::collections::BTreeMap;

use nacre_object::{Error, Result, TenantName};

use super::{MissRatioCurve, allocate_by_hull};
use crate::limits::MAX_CACHE_UNITS;

/// What a tenant reads at one node.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheDemand {
    /// Its reads a second.
    pub reads_per_second: f64,
    /// Which part of its reads a cache of each size misses.
    pub curve: MissRatioCurve,
}

/// Divides a cache of `units` units among tenants so that few reads miss. Every node has a cache of
/// this size and gets the same shares. A unit has `unit_blocks` blocks. `tenants` has the demands of
/// each tenant at all nodes; `unnamed` has those of all other tenants together.
///
/// The result has the units of each tenant. The units that it does not name are for the unnamed
/// tenants. They get one unit at least, so that the reads of a new tenant find some memory.
///
/// # Errors
/// `Invalid` if there are no units or too many, or if a unit has no blocks.
pub fn divide_cache(
    tenants: &BTreeMap<TenantName, Vec<CacheDemand>>,
    unnamed: &[CacheDemand],
    units: usize,
    unit_blocks: u64,
) -> Result<BTreeMap<TenantName, usize>> {
    if units == 0 || units > MAX_CACHE_UNITS || unit_blocks == 0 {
        return Err(Error::invalid(format!(
            "a cache cannot be divided into {units} parts of {unit_blocks} blocks"
        ))
        .hint(format!("use 1 to {MAX_CACHE_UNITS} parts of one block or more")));
    }
    let all = tenants.values().map(|demands| together(demands)).chain([together(unnamed)]);
    let shares = allocate_by_hull(&all.collect::<Vec<_>>(), units - 1, unit_blocks);
    Ok(tenants.keys().cloned().zip(shares).collect())
}

/// The curve of a tenant's reads at all nodes, and their rate.
fn together(demands: &[CacheDemand]) -> (MissRatioCurve, f64) {
    let curves: Vec<_> =
        demands.iter().map(|one| (one.curve.clone(), one.reads_per_second)).collect();
    (MissRatioCurve::mean(&curves), curves.iter().map(|(_, rate)| rate).sum())
}
