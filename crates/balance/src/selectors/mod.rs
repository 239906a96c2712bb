//! Selectors: they choose the units that make up the load to be sent to a rank.
//!
//! Every selector that `howmuch` names runs. The one whose sum is nearest to the target wins.

mod nearest;
mod orders;
mod selector;

pub(crate) use nearest::nearest;
pub(crate) use orders::Orders;
pub use selector::Selector;
