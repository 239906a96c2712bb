//! Which target holds an object, and the store that routes by it.
//!
//! [`Placement`] is pure: targets with weights in, the target of an object out, by weighted
//! rendezvous hashing. [`PlacedStore`] is the store that sends each request to its object's target.
//! What clients and nodes share is only the list of targets: two that have the same list agree on
//! every object without asking anybody. [`HolderCheck`] is the layer with which a target refuses
//! requests for objects that another target holds.

mod holder_check;
mod placed_store;
mod placement;

pub use holder_check::HolderCheck;
pub use placed_store::{PlacedStore, PlacedTarget};
pub use placement::{MAX_TARGETS, Placement, Target};
