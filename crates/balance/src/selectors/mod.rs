//! Selectors: each chooses units of a rank whose load together is near a target.
//!
//! All selectors that `howmuch` names choose units. The policy uses the choice whose load is
//! nearest to the target.

mod nearest;
mod orders;
mod selector;

pub(crate) use nearest::nearest;
pub(crate) use orders::Orders;
pub use selector::Selector;
