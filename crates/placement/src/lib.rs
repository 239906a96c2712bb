//! Decides which target holds an object, and routes requests by that decision.
//!
//! [`Placement`] is pure: it takes targets with weights and computes the target of an object by
//! weighted rendezvous hashing. [`PlacedStore`] sends each request to its object's target. Clients
//! and nodes share only the list of targets: two processes with the same list compute the same
//! target for every object. With [`HolderCheck`] a target refuses requests for objects that another
//! target holds.

mod holder_check;
mod placed_store;
mod placement;

pub use holder_check::HolderCheck;
pub use placed_store::{PlacedStore, PlacedTarget};
pub use placement::{MAX_TARGETS, Placement, Target};
