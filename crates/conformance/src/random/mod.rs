//! Random transactions, and the comparison of a store with the model on them.
//!
//! A [`Generator`] makes [`Step`]s from a seed. A [`Comparison`] applies each to a store and to a
//! [`MemoryStore`](crate::MemoryStore), and compares replies, errors and contents. [`compare`]
//! applies all steps of a seed in this way. If a step fails, it finds a few steps that suffice for
//! the failure.

mod comparison;
mod generator;
mod shrink;

pub use comparison::Comparison;
pub use generator::{CURRENT_VERSION, Generator, OBJECTS, Step, random_transaction};
pub use shrink::{compare, seeds};
