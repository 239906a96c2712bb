//! `Thrash`: counts units that come back to a rank soon after they left it.

use std::collections::BTreeMap;

/// A unit that comes back to a rank within this many ticks after it left that rank counts as
/// thrash.
pub const THRASH_TICKS: u64 = 10;

/// Counts units that come back.
#[derive(Debug, Default)]
pub(super) struct Thrash {
    /// When each unit left which rank, the latest last.
    left: BTreeMap<usize, Vec<(u64, usize)>>,
    count: u64,
}

impl Thrash {
    /// Records that a unit moves from one rank to another.
    pub fn moved(&mut self, tick: u64, unit: usize, from: usize, to: usize) {
        let left = self.left.entry(unit).or_default();
        left.retain(|(then, _)| then + THRASH_TICKS >= tick);
        self.count += u64::from(left.iter().any(|(_, rank)| *rank == to));
        left.push((tick, from));
    }

    /// How many came back so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_comes_back_soon_is_counted_and_one_that_comes_back_late_is_not() {
        let mut thrash = Thrash::default();
        thrash.moved(1, 7, 0, 1);
        thrash.moved(2, 8, 1, 0);
        assert_eq!(thrash.count(), 0);
        thrash.moved(1 + THRASH_TICKS, 7, 1, 0);
        assert_eq!(thrash.count(), 1);
        thrash.moved(2 + 3 * THRASH_TICKS, 7, 0, 1);
        assert_eq!(thrash.count(), 1);
    }
}
