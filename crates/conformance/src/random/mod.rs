//! Random tests: compares a store with the in-memory model on random transactions.
//!
//! A [`Generator`] makes [`Step`]s from a seed. A [`Comparison`] applies each step to a store and
//! to a [`MemoryStore`](crate::MemoryStore), and compares replies, errors and contents. [`compare`]
//! does that for all steps of a seed. After a failure it looks for a few steps that are enough to
//! reproduce it.

mod comparison;
mod generator;
mod shrink;

pub use comparison::Comparison;
pub use generator::{CURRENT_VERSION, Generator, OBJECTS, Step, random_transaction};
pub use shrink::{compare, seeds};
