//! The destinations that a route program declares before it decides anything.

use std::collections::BTreeMap;

use nacre_object::{Error, ProgramName, Result};

use super::Destination;
use crate::limits::MAX_PROGRAM_DESTINATIONS;

/// A version of a route program, and the destinations to which it may send IO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The version.
    pub version: u64,
    /// The destinations. The switch refuses a decision for any other.
    pub destinations: Vec<Destination>,
}

/// The declarations of the programs that rules name. A program that is missing is unknown.
pub type Programs = BTreeMap<ProgramName, Declared>;

/// Adds a destination to those that the program has declared.
///
/// # Errors
/// `Invalid` if it was declared before, or if it is a program or the controller; `Exhausted` past
/// [`MAX_PROGRAM_DESTINATIONS`].
pub fn declare(destinations: &mut Vec<Destination>, new: Destination) -> Result<()> {
    if matches!(new, Destination::Program(_) | Destination::Controller(_)) {
        return Err(Error::invalid(format!("a program cannot declare the destination \"{new}\""))
            .hint("declare the final destinations, such as home or target NAME"));
    }
    if destinations.contains(&new) {
        return Err(Error::invalid(format!("the destination \"{new}\" is declared twice"))
            .hint("declare it once"));
    }
    if destinations.len() >= MAX_PROGRAM_DESTINATIONS {
        let text = format!("a program declares {MAX_PROGRAM_DESTINATIONS} destinations at most");
        return Err(Error::exhausted(text).hint("declare a pool instead of many targets"));
    }
    destinations.push(new);
    Ok(())
}
