//! Numbers that say which of two things is the newer.

use crate::model::SwitchName;

/// The number of an update. The controller stores it before it uses it, and uses each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Term(pub u64);

/// Low bits of a counter, which count changes. The bits above them hold the term in which the
/// counter began. No switch makes 2^32 changes in one term.
const CHANGES_BITS: u32 = 32;

impl Term {
    /// The first counter of switches in this term. It is above all counters of earlier terms.
    pub(super) const fn first_counter(self) -> u64 {
        self.0 << CHANGES_BITS
    }
}

/// The age of a change. A later change of the same switch has a greater stamp. A change of another
/// switch does so if that switch knew of the earlier change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// Rises at each change of a switch, past every counter that the switch has heard of.
    pub counter: u64,
    /// The switch; it tells changes of one counter apart.
    pub switch: SwitchName,
}
