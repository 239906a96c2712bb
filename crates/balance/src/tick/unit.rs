//! `Unit`: something that can move from one rank to another.

use serde::{Deserialize, Serialize};

use crate::UnitRates;

/// Something that a rank serves and that can move to another rank: a resource, a directory
/// fragment, or a subtree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name, which no other unit has.
    pub name: String,
    /// Its file type, as `sequencer`.
    #[serde(default)]
    pub kind: String,
    /// Whose it is.
    #[serde(default)]
    pub tenant: String,
    /// Its counters.
    #[serde(default)]
    pub rates: UnitRates,
}
