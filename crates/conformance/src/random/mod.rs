//! Random transactions, and the comparison of a store with the model on them.
//!
//! A [`Generator`] makes [`Step`]s from a seed. A [`Comparison`] applies each to a store and to a
//! [`MemoryStore`](crate::MemoryStore), and compares replies, errors and contents. [`compare`] does
//! so for a whole seed, and reduces a failure to a few steps.

mod comparison;
mod generator;
mod shrink;

pub use comparison::Comparison;
pub use generator::{CURRENT_VERSION, Generator, OBJECTS, Step, random_transaction};
pub use shrink::{compare, seeds};
