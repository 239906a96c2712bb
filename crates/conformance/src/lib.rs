//! One suite that every store must pass, and the plain in-memory store it is compared with.

pub mod faults;
mod faulty_store;
mod memory_object;
mod memory_store;
pub mod ops;
pub mod random;
pub mod suite;
mod test_classes;
mod watch_hub;

pub use faults::Fault;
pub use faulty_store::FaultyStore;
pub use memory_object::MemoryObject;
pub use memory_store::MemoryStore;
pub use random::{compare, seeds};
pub use suite::{Subject, run_all};
pub use test_classes::TestClasses;
pub use watch_hub::{MAX_QUEUED_EVENTS, MAX_WATCHES};
