//! Random transactions, and stores compared with the model on them.
//!
//! A [`Generator`] makes [`Step`]s from a seed; a [`Comparison`] applies each to a store and to a
//! [`MemoryStore`](crate::MemoryStore) and compares replies, errors and contents; [`compare`] does
//! so for a whole seed, and cuts what fails down to a few steps.

mod comparison;
mod generator;
mod shrink;

pub use comparison::Comparison;
pub use generator::{CURRENT_VERSION, Generator, OBJECTS, Step, random_transaction};
pub use shrink::{compare, seeds};
