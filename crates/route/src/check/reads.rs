//! Decides whether a read can miss a write, from the paths of both.

use std::collections::BTreeSet;

use super::trace::{End, Endpoint, Way};
use crate::model::Follow;

/// Whether a read of these bytes always sees what the write wrote, by whatever copies both go to.
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

/// How many of these endpoints the IO goes to; `None` if rules alone lead it to no endpoint.
fn copies(way: &Way) -> Option<(usize, BTreeSet<&Endpoint>)> {
    match &way.end {
        End::Served(endpoint) => Some((1, BTreeSet::from([endpoint]))),
        End::Scattered { take, among } => Some((*take, among.iter().collect())),
        End::Controller | End::Loop | End::Missing(_) => None,
    }
}

/// Whether any choice of copies to write and any choice of copies to read have one in common.
fn meet(write: &(usize, BTreeSet<&Endpoint>), read: &(usize, BTreeSet<&Endpoint>)) -> bool {
    let common = write.1.intersection(&read.1).count();
    // To keep them apart, an adversary first chooses the copies that only one of the two goes to.
    let left = |own: &(usize, BTreeSet<&Endpoint>)| own.0.saturating_sub(own.1.len() - common);
    left(write) + left(read) > common
}

/// If only one of the two passes a cache, the cache is stale or holds back the write.
fn meet_in_caches(read: &Way, write: &Way) -> bool {
    let only_read = write.bypassed.difference(&read.bypassed).next().is_some();
    let only_written = read.bypassed.difference(&write.bypassed).next().is_some();
    (!only_read || read.options.is_uncached)
        && (!only_written || write.options.is_write_through || write.options.is_uncached)
}
