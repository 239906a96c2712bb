//! What a route program says of itself before it decides anything.

use std::collections::BTreeMap;

use nacre_object::{Error, ProgramName, Result};

use super::Destination;
use crate::limits::MAX_PROGRAM_DESTINATIONS;

/// A version of a route program, and where it may send IO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The version.
    pub version: u64,
    /// The destinations. A decision for any other is refused.
    pub destinations: Vec<Destination>,
}

/// The declarations of the programs that rules name. A program that is missing here is unknown.
pub type Programs = BTreeMap<ProgramName, Declared>;

/// Adds a destination to those that the program declares.
///
/// # Errors
/// `Invalid` if the program has declared the destination already, or if it is a program or the
/// controller; `Exhausted` past [`MAX_PROGRAM_DESTINATIONS`].
pub fn declare(destinations: &mut Vec<Destination>, new: Destination) -> Result<()> {
    if matches!(new, Destination::Program(_) | Destination::Controller(_)) {
        return Err(Error::invalid(format!("\"{new}\" is no destination of a program"))
            .hint("a program decides itself where IO goes"));
    }
    if destinations.contains(&new) {
        return Err(Error::invalid(format!("the destination \"{new}\" is declared twice")));
    }
    if destinations.len() >= MAX_PROGRAM_DESTINATIONS {
        let text = format!("a program declares {MAX_PROGRAM_DESTINATIONS} destinations at most");
        return Err(Error::exhausted(text));
    }
    destinations.push(new);
    Ok(())
}
