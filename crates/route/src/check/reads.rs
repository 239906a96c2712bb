//! Decides whether a read can miss a write, from the paths of both.

use std::collections::BTreeSet;

use super::trace::{End, Endpoint, Way};
use crate::model::Follow;

/// Whether the read always sees the bytes of the write, whichever copies the write and the read
/// use.
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
        // The controller puts such IO in order; loops and black holes are findings of their own.
        return true;
    };
    meet(&written, &asked) && meet_in_caches(read, write)
}

/// The endpoints of an IO, and how many of them it uses. `None` if no endpoint follows from the
/// rules alone.
fn copies(way: &Way) -> Option<(usize, BTreeSet<&Endpoint>)> {
    match &way.end {
        End::Served(endpoint) => Some((1, BTreeSet::from([endpoint]))),
        End::Scattered { take, among } => Some((*take, among.iter().collect())),
        End::Controller | End::Loop | End::Missing(_) => None,
    }
}

/// Whether every possible choice of written copies shares a copy with every possible choice of read
/// copies.
fn meet(write: &(usize, BTreeSet<&Endpoint>), read: &(usize, BTreeSet<&Endpoint>)) -> bool {
    let common = write.1.intersection(&read.1).count();
    // Worst case: the write and the read first use all copies that the other one cannot use.
    let left = |own: &(usize, BTreeSet<&Endpoint>)| own.0.saturating_sub(own.1.len() - common);
    left(write) + left(read) > common
}

/// Whether the read and the write are consistent through caches. If only the read passes a cache,
/// the cache may be stale. If only the write passes one, the cache may hold the write back.
fn meet_in_caches(read: &Way, write: &Way) -> bool {
    let only_read = write.bypassed.difference(&read.bypassed).next().is_some();
    let only_written = read.bypassed.difference(&write.bypassed).next().is_some();
    (!only_read || read.options.is_uncached)
        && (!only_written || write.options.is_write_through || write.options.is_uncached)
}
