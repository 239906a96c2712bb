//! Copies of objects, which rules such as `* r data/hot/* -> one storage.0,storage.1` allow. They
//! serve reads. The pure state machine [`nacre_route::Copies`] says which copies are current, and which
//! one serves a read.
//!
//! - [`reads`]: the way of a request on an object with such a rule. Anything that may change the
//!   object first takes its copies out of the read set.
//! - [`updates`]: applies plain writes to copies, if a rule wants it. So the copies stay current.
//! - [`maker`]: makes a copy, from this node's own object.
//! - [`sweeper`]: drops the copies that nobody needs, also those that this switch does not know.
//! - [`copy_store`]: the part of the service `route` that stores copies for other nodes.
//! - [`report`]: what the node says of its copies.

mod copy_store;
mod maker;
mod reads;
mod report;
mod sweeper;
mod updates;

pub(super) use copy_store::CopyStore;
pub(super) use report::copy_ways;
pub use report::{CopiesStatus, CopyWay};
pub(super) use sweeper::run;
pub(super) use updates::Updates;
