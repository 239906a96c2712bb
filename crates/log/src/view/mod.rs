//! A log's view: the shared state that says which object has each position, which sequencer issues
//! positions, and under which epoch.
//!
//! A view is immutable. To change it, a node proposes the next view, whose epoch is that of the
//! stored view plus one. The store accepts the first proposal; every other is `Stale`. So all
//! changes of a log are one sequence, and each of these methods makes one step of it:
//!
//! - [`View::claimed_by`]: another sequencer takes over (sealing and finding the tail come after);
//! - [`View::extended`]: the sequencer lengthens the last range before it is full;
//! - [`View::cut`]: the sequencer ends the last range at its tail and opens another range there,
//!   without a dead target, or with another width;
//! - [`View::forgetting_below`]: trimmed positions need no objects any more;
//! - [`View::removed`]: the log is removed. Its last view stays, so that clients with an earlier
//!   view learn of the removal, and a later log of its name ([`View::reborn`]) uses other objects;
//! - [`View::with_class`]: another implementation of the storage interface;
//! - [`View::with_capability`]: another policy for clients that hold the sequencer's capability;
//! - [`View::renewed`]: only the epoch changes.
//!
//! # Invariants
//!
//! - Ranges are adjacent and in order. A position is in at most one range, and its object never
//!   changes once a sequencer may have issued it.
//! - The tail is never below the start of the last range, because a range is opened at the tail.

mod layout;
mod range;
mod record;
#[cfg(test)]
mod tests;
mod transition;

pub use layout::Layout;
pub use range::{EntryLocation, LOG_OBJECT_PREFIX, StripeRange};
pub(crate) use transition::FIRST_RANGE_BOUND;
pub use transition::View;
