//! A range of positions that are striped over objects with one layout.

use nacre_object::{ObjectId, ObjectName, PoolName};
use serde::{Deserialize, Serialize};

use crate::LogName;

/// The prefix of the names of all objects of logs. The log's name and a slash follow.
pub const LOG_OBJECT_PREFIX: &str = "log/";

/// A range of a log: the positions `first..end`, striped over objects.
///
/// The range is divided into *stripes* of `width × slots` positions. A stripe has one object for
/// each *column*. Successive positions are on successive columns; the first column follows the
/// last. Each stripe has its own objects, so objects stay small, and trimming a stripe deletes
/// whole objects. The objects of one column are all on the same target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeRange {
    /// Part of the objects' names; later ranges have greater ones.
    pub id: u32,
    /// The first position.
    pub first: u64,
    /// One past the last position.
    pub end: u64,
    /// Entries an object holds.
    pub slots: u32,
    /// One salt for each column: the part of its objects' names that decides their target.
    pub columns: Vec<u32>,
}

/// Where a position lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryLocation {
    /// The range's id.
    pub range: u32,
    /// The stripe within the range.
    pub stripe: u64,
    /// The column within the stripe.
    pub column: u32,
}

impl StripeRange {
    /// Objects a stripe has.
    pub fn width(&self) -> u64 {
        self.columns.len() as u64
    }

    /// Positions of a stripe.
    pub fn stripe_positions(&self) -> u64 {
        self.width() * u64::from(self.slots)
    }

    /// How many stripes begin before `position`. All of them if it is past the end.
    pub fn stripes_before(&self, position: u64) -> u64 {
        let position = position.clamp(self.first, self.end);
        (position - self.first).div_ceil(self.stripe_positions())
    }

    /// How many stripes there are.
    pub fn stripe_count(&self) -> u64 {
        self.stripes_before(self.end)
    }

    /// One past the last position of a stripe.
    pub fn stripe_end(&self, stripe: u64) -> u64 {
        self.end.min(self.first + (stripe + 1) * self.stripe_positions())
    }

    /// Returns one past the last used position of a stripe, given the greatest position that its
    /// objects report. `None` if no position of the stripe was used. Ignores positions outside the
    /// stripe, because a client with the right to fill can name any position.
    pub fn tail_in(&self, stripe: u64, maximum: Option<u64>) -> Option<u64> {
        let first = self.first + stripe * self.stripe_positions();
        let used = maximum.filter(|position| *position >= first)?;
        Some(self.stripe_end(stripe).min(used.saturating_add(1)))
    }

    /// Whether the position is in this range.
    pub fn contains(&self, position: u64) -> bool {
        (self.first..self.end).contains(&position)
    }

    /// Where a position of this range lives.
    pub fn place(&self, position: u64) -> EntryLocation {
        debug_assert!(self.contains(position), "{position} is not in {self:?}");
        let offset = position - self.first;
        EntryLocation {
            range: self.id,
            stripe: offset / self.stripe_positions(),
            column: (offset % self.width()) as u32,
        }
    }

    /// The places of one stripe, a column each.
    pub fn stripe_places(&self, stripe: u64) -> impl Iterator<Item = EntryLocation> + use<> {
        let range = self.id;
        (0..self.columns.len() as u32).map(move |column| EntryLocation { range, stripe, column })
    }

    /// The object of a place of this range.
    pub fn object(&self, pool: &PoolName, log: &LogName, place: EntryLocation) -> ObjectId {
        let tag = column_tag(log, self.id, place.column, self.columns[place.column as usize]);
        let EntryLocation { range, stripe, column } = place;
        let name = format!("{LOG_OBJECT_PREFIX}{log}/{range}.{stripe}.{column}{{{tag}}}");
        let name = ObjectName::new(name).expect("log names are short and without NUL");
        ObjectId::new(pool.clone(), name)
    }
}

/// The part of the names of a column's objects that placement hashes.
pub(super) fn column_tag(log: &LogName, range: u32, column: u32, salt: u32) -> String {
    format!("{log}.{range}.{column}.{salt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> StripeRange {
        StripeRange { id: 4, first: 100, end: 120, slots: 3, columns: vec![0, 7] }
    }

    #[test]
    fn positions_use_the_columns_in_turn_and_then_the_next_stripe() {
        let places: Vec<_> = (100..114).map(|position| range().place(position)).collect();
        let stripes: Vec<_> = places.iter().map(|place| place.stripe).collect();
        let columns: Vec<_> = places.iter().map(|place| place.column).collect();
        assert_eq!(stripes, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2]);
        assert_eq!(columns, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn the_last_stripe_may_be_cut_short() {
        assert_eq!(range().stripe_count(), 4);
        assert_eq!((range().stripe_end(0), range().stripe_end(3)), (106, 120));
        assert_eq!(range().stripes_before(100), 0);
        assert_eq!(range().stripes_before(106), 1);
        assert_eq!(range().stripes_before(107), 2);
        assert_eq!(range().stripes_before(9999), 4);
    }

    #[test]
    fn the_tail_of_a_stripe_ignores_positions_outside_the_stripe() {
        let tails = |maxima: [Option<u64>; 4]| maxima.map(|maximum| range().tail_in(1, maximum));
        assert_eq!(
            tails([None, Some(105), Some(106), Some(111)]),
            [None, None, Some(107), Some(112)]
        );
        assert_eq!(tails([Some(112), Some(u64::MAX), None, None])[..2], [Some(112); 2]);
    }

    #[test]
    fn objects_of_a_column_have_the_same_placement_and_those_of_other_columns_do_not() {
        let (pool, log) = (PoolName::new("log").unwrap(), LogName::new("a").unwrap());
        let name = |stripe, column| {
            range().object(&pool, &log, EntryLocation { range: 4, stripe, column }).name
        };
        assert_eq!(name(2, 1).as_str(), "log/a/4.2.1{a.4.1.7}");
        assert_eq!(name(0, 1).placement_key(), name(2, 1).placement_key());
        assert_ne!(name(0, 0).placement_key(), name(0, 1).placement_key());
    }
}
