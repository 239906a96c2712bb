//! Selectors: they choose the units that are sent to a rank, so that their load is near a target.
//!
//! Every selector that `howmuch` names chooses units. The choice whose load is nearest to the
//! target is used.

mod nearest;
mod orders;
mod selector;

pub(crate) use nearest::nearest;
pub(crate) use orders::Orders;
pub use selector::Selector;
