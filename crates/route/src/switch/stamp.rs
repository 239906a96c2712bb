//! `Term` and `Stamp`: numbers that say which of two updates or changes is newer.

use crate::model::SwitchName;

/// The number of an update of the rules. The controller stores a term before it uses it, and uses
/// it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Term(pub u64);

/// The number of low bits of a counter that count changes. The bits above them are the term in
/// which the switch counted them. No switch makes 2^32 changes in one term.
const CHANGES_BITS: u32 = 32;

impl Term {
    /// The first counter in this term. It is greater than all counters of earlier terms.
    pub(super) const fn first_counter(self) -> u64 {
        self.0 << CHANGES_BITS
    }
}

/// Orders changes of the same bytes: the later change has the greater stamp. For changes by one
/// switch this always holds. For changes by two switches it holds if the switch of the later change
/// knew of the earlier change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// A number that grows with each change of the switch. It is greater than every counter that
    /// the switch has received.
    pub counter: u64,
    /// The switch that made the change. It orders changes with the same counter.
    pub switch: SwitchName,
}
