//! Numbers that say which of two things is the newer.

use crate::model::SwitchName;

/// The number of an update. The controller stores it before it uses it, and uses each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Term(pub u64);

/// Bits of a counter below the term in which it began. No switch makes so many changes in one term.
const CHANGES_BITS: u32 = 32;

impl Term {
    /// Where the counters of switches begin in this term: above all counters of earlier terms.
    pub(super) const fn first_counter(self) -> u64 {
        self.0 << CHANGES_BITS
    }
}

/// The age of a change: a later one has the greater stamp, also at another switch if that one knew of the earlier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// Rises at each change of a switch, past every counter that the switch has heard of.
    pub counter: u64,
    /// The switch; it tells changes of one counter apart.
    pub switch: SwitchName,
}
