//! Where nacre's pools lie: each is a namespace of the engine's main RADOS pool, unless the
//! [`table`] gives it a RADOS pool of its own.

pub mod namespaces;
pub mod table;
