//! One suite that every store must pass, and the plain in-memory store it is compared with.

mod memory_object;
mod memory_store;
mod watch_hub;

pub use memory_object::MemoryObject;
pub use memory_store::MemoryStore;
pub use watch_hub::{MAX_QUEUED_EVENTS, MAX_WATCHES};
