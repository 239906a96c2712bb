//! A log's view: the one piece of shared state that says where positions live, who hands them out,
//! and under which epoch.
//!
//! A view is immutable. Whoever wants another proposes a successor, whose epoch is the stored one
//! plus one; the proposal that comes first is the view, every other is `Stale`. So all changes of a
//! log are one sequence, and each of these methods makes one step of it:
//!
//! - [`View::claimed_by`]: another sequencer takes over (sealing and finding the tail come after);
//! - [`View::extended`]: the sequencer lengthens the last range before it is full;
//! - [`View::cut`]: the sequencer ends the last range at its tail and opens another range there,
//!   away from a dead target, or of another width;
//! - [`View::forgetting_below`]: what is trimmed needs no objects any more;
//! - [`View::removed`]: the log is no more; its last view stays, so that whoever held an earlier one learns it,
//!   and a log made under its name ([`View::reborn`]) takes other objects;
//! - [`View::with_class`]: another implementation of the storage interface;
//! - [`View::with_capability`]: another policy by which clients hold the sequencer's capability;
//! - [`View::renewed`]: nothing but the epoch.
//!
//! # Invariants
//!
//! - Ranges are adjacent and in order; a position is in at most one, and its object never changes
//!   once a sequencer may have issued it.
//! - The tail is never below the start of the last range: a range is opened at the tail.

mod layout;
mod range;
mod record;
#[cfg(test)]
mod tests;
mod transition;

pub use layout::Layout;
pub use range::{LOG_OBJECT_PREFIX, Place, StripeRange};
pub(crate) use transition::FIRST_RANGE_BOUND;
pub use transition::View;
