//! The engine on Ceph: a [`Store`](nacre_object::Store) that keeps its objects in a Ceph cluster,
//! through librados. It needs no daemon besides Ceph's.
//!
//! nacre's pools are namespaces of one RADOS pool (or of RADOS pools of their own), and its objects are RADOS objects (the crate
//! `rados-layout` describes their form). So RADOS replicates the objects, and orders the changes of
//! each object.
//!
//! | folder or file | holds |
//! | --- | --- |
//! | `engine`, `options` | the engine and its options, the interface of the crate |
//! | `cluster/` | the Ceph cluster: connection, what its monitors know, which OSDs keep an object |
//! | `transaction/` | how a request is run on an object; its decisions (`write_only`, `plan`, `partial_view`, `image`) are pure |
//! | `classes/` | methods that run inside OSDs |
//! | `pools/` | which RADOS pool holds a pool of nacre |
//! | `listing`, `watches`, `mailbox` | listings in byte order; watches |
//! | `shared_reads`, `recent_set`, `in_flight` | reads done once for many callers; recent findings; the bound of requests |
//! | `ffi/` | the binding of librados, which is loaded on first use; the only unsafe code |
//!
//! A program with this crate also runs on a machine without librados; only this engine is then
//! unavailable.

mod classes;
mod cluster;
mod engine;
#[allow(unsafe_code, reason = "the binding of a C library; see the module")]
mod ffi;
#[cfg(test)]
mod fuzz_tests;
mod in_flight;
mod listing;
mod mailbox;
mod options;
mod pools;
mod recent_set;
mod shared_reads;
mod transaction;
mod watches;

pub use classes::in_osd::OsdCounts;
pub use classes::plugin_call::REPLY_BYTES;
pub use classes::survey::{Offer, OsdClasses, Survey};
pub use cluster::administrator::{Administrator, Expected, PoolObjects};
pub use cluster::examination::{Examination, OsdFacts, OsdSettings, PoolFacts, examine};
pub use cluster::location::Location;
pub use cluster::osd_counters::OsdCounters;
pub use cluster::placement_seed::PlacementSeed;
pub use cluster::plain_client::{PlainAnswer, PlainClient};
pub use cluster::primaries::{GroupPlacement, Overrides, PoolPlacement, PrimaryProgress};
pub use engine::RadosEngine;
pub use options::RadosOptions;
pub use pools::table::RadosPoolRef;
