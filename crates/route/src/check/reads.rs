//! Decides from the paths of a read and a write whether the read can miss the written bytes.

use std::collections::BTreeSet;

use super::trace::{End, Endpoint, Way};
use crate::model::Follow;

/// Whether the read always sees the bytes of the write, whichever copies the two use.
pub fn sees(read: &Way, write: &Way) -> bool {
    match write.follow {
        Follow::Everywhere => return true,
        Follow::Here => {
            let passes = |hop: &super::Hop| Some(&hop.switch) == write.follow_at.as_ref();
            if read.hops.iter().any(passes) {
                return true;
            }
        }
        Follow::No => {}
    }
    let (Some(written), Some(asked)) = (copies(write), copies(read)) else {
        // The controller orders such IO. Loops and black holes are reported as problems of their
        // own.
        return true;
    };
    meet(&written, &asked) && meet_in_caches(read, write)
}

/// Whether both pass the same layers that re-encode bytes, or end where no bytes are.
pub fn is_encoded_alike(read: &Way, write: &Way) -> bool {
    let ends = |way: &Way| copies(way).is_some();
    read.encoded == write.encoded || !ends(read) || !ends(write)
}

/// The number of endpoints that an IO uses, and the endpoints that it may choose. `None` if the
/// rules do not determine them.
fn copies(way: &Way) -> Option<(usize, BTreeSet<&Endpoint>)> {
    match &way.end {
        End::Served(endpoint) => Some((1, BTreeSet::from([endpoint]))),
        // The switch keeps the copies current, so the IO sees what one at their origin sees.
        End::Scattered { current_with: Some(origin), .. } => Some((1, BTreeSet::from([origin]))),
        End::Scattered { take, among, .. } => Some((*take, among.iter().collect())),
        End::Controller | End::Loop | End::Missing(_) => None,
    }
}

/// Whether a read always uses at least one endpoint that the write used, whichever endpoints the
/// two choose.
fn meet(write: &(usize, BTreeSet<&Endpoint>), read: &(usize, BTreeSet<&Endpoint>)) -> bool {
    let common = write.1.intersection(&read.1).count();
    // In the worst case, each of the two first chooses the endpoints that the other may not choose.
    let left = |own: &(usize, BTreeSet<&Endpoint>)| own.0.saturating_sub(own.1.len() - common);
    left(write) + left(read) > common
}

/// Whether the read sees the write despite caches. If only the read passes a cache, the cache may
/// be stale. If only the write passes a cache, the cache may not have written the bytes back yet.
fn meet_in_caches(read: &Way, write: &Way) -> bool {
    let only_read = write.bypassed.difference(&read.bypassed).next().is_some();
    let only_written = read.bypassed.difference(&write.bypassed).next().is_some();
    (!only_read || read.options.is_uncached)
        && (!only_written || write.options.is_write_through || write.options.is_uncached)
}
