//! The engine on Ceph: a [`Store`](nacre_object::Store) over librados, with no daemon of ours.
//!
//! nacre's pools are namespaces of one RADOS pool, its objects are RADOS objects (`rados-layout` says
//! how they lie there), so RADOS replicates them and orders what is done to one. How a transaction is
//! run is told in [`transaction`]; the decisions are pure ([`blind`], [`plan`], [`draft`], [`image`]),
//! and all that is unsafe is in [`ffi`], which loads librados when it is asked for: the program runs
//! where Ceph is not installed.

mod allowance;
mod blind;
mod class_offers;
mod connection;
mod draft;
mod draft_map;
#[cfg(test)]
mod draft_tests;
mod engine;
mod examination;
mod failure;
#[allow(unsafe_code, reason = "the binding of a C library; see the module")]
mod ffi;
#[cfg(test)]
mod fuzz_tests;
mod image;
mod in_flight;
mod in_osd;
mod key_search;
mod last_walk;
mod listing;
mod location;
mod long_answers;
mod mailbox;
mod map_bounds;
mod missing;
mod objects;
mod options;
mod osd_map;
mod placement_seed;
mod plain_client;
mod plan;
mod plugin_call;
mod remembered;
mod shared_reads;
mod stock_call;
mod stock_source;
mod survey;
mod transaction;
#[cfg(test)]
mod transaction_tests;
mod turns;
mod watches;

pub use engine::RadosEngine;
pub use examination::{Examination, OsdFacts, OsdSettings, PoolFacts, examine};
pub use ffi::leave_if_connected;
pub use in_osd::OsdCounts;
pub use location::Location;
pub use options::RadosOptions;
pub use plain_client::{PlainAnswer, PlainClient};
pub use plugin_call::REPLY_BYTES;
pub use survey::{Offer, OsdClasses, Survey};
