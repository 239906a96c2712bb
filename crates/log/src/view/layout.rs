//! How a new range is laid over the targets.

use nacre_object::{Error, Locate, ObjectId, PoolName, Result, TargetName};

use super::range::{EntryLocation, StripeRange, column_tag};
use crate::LogName;
use crate::limits::{MAX_SALT_TRIES, MAX_SLOTS, MAX_WIDTH};

/// The shape of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Objects a stripe has; at least 1, at most `MAX_WIDTH`.
    pub width: u32,
    /// Entries an object holds; at least 1, at most `MAX_SLOTS`.
    pub slots: u32,
}

impl Layout {
    /// Checks the layout's bounds.
    ///
    /// # Errors
    /// `Invalid`, with the bound that it exceeds.
    pub fn check(self) -> Result<Self> {
        if !(1..=MAX_WIDTH).contains(&self.width) {
            return Err(Error::invalid(format!("a stripe cannot have {} objects", self.width))
                .hint(format!("use 1 to {MAX_WIDTH}")));
        }
        if !(1..=MAX_SLOTS).contains(&self.slots) {
            return Err(Error::invalid(format!("an object cannot hold {} entries", self.slots))
                .hint(format!("use 1 to {MAX_SLOTS}")));
        }
        Ok(self)
    }

    /// Makes a range `first..end` of this shape. Its columns use the targets in turn, except those
    /// to be avoided.
    ///
    /// Placement is a hash of the objects' names. So each column has a number in its objects'
    /// names, the *salt*: the first number for which placement chooses the wanted target. If a
    /// store does not report its targets, it decides itself where the objects are.
    ///
    /// # Errors
    /// `Unavailable` if every target must be avoided.
    pub(super) fn range(
        self,
        log: &LogName,
        pool: &PoolName,
        id: u32,
        positions: std::ops::Range<u64>,
        placement: &dyn Locate,
        avoid: &[TargetName],
    ) -> Result<StripeRange> {
        let targets = placement.targets();
        let live: Vec<_> = targets.iter().filter(|target| !avoid.contains(target)).collect();
        if live.is_empty() && !targets.is_empty() {
            return Err(Error::unavailable("no storage target is left for the log")
                .on(log)
                .hint("bring a target back"));
        }
        let mut range = StripeRange {
            id,
            first: positions.start,
            end: positions.end,
            slots: self.slots,
            columns: vec![0; self.width as usize],
        };
        if !live.is_empty() {
            for column in 0..self.width {
                // The target of the first column changes from range to range, so that many logs
                // with few columns do not all begin on the same target.
                let turn = (column as usize + first_turn(log, id)) % live.len();
                let salt = salt_for(log, pool, &range, column, live[turn], placement)
                    .or_else(|| salt_away_from(log, pool, &range, column, avoid, placement));
                range.columns[column as usize] = salt.ok_or_else(|| {
                    Error::unavailable("placement gives the log's objects to dead targets only")
                        .on(log)
                        .hint("bring a target back")
                })?;
            }
        }
        Ok(range)
    }
}

fn first_turn(log: &LogName, range: u32) -> usize {
    crc32c::crc32c_append(range, log.as_str().as_bytes()) as usize
}

fn salt_for(
    log: &LogName,
    pool: &PoolName,
    range: &StripeRange,
    column: u32,
    target: &TargetName,
    placement: &dyn Locate,
) -> Option<u32> {
    (0..MAX_SALT_TRIES)
        .find(|salt| placement.locate(&sample(log, pool, range, column, *salt)) == *target)
}

/// Finds a salt for any target outside `avoid`. This is needed if the wanted target has so little
/// weight that placement hardly ever chooses it.
fn salt_away_from(
    log: &LogName,
    pool: &PoolName,
    range: &StripeRange,
    column: u32,
    avoid: &[TargetName],
    placement: &dyn Locate,
) -> Option<u32> {
    (0..MAX_SALT_TRIES)
        .find(|salt| !avoid.contains(&placement.locate(&sample(log, pool, range, column, *salt))))
}

/// An object of the column, if it had this salt.
fn sample(log: &LogName, pool: &PoolName, range: &StripeRange, column: u32, salt: u32) -> ObjectId {
    let mut columns = range.columns.clone();
    columns[column as usize] = salt;
    let trial = StripeRange { columns, ..range.clone() };
    let object = trial.object(pool, log, EntryLocation { range: range.id, stripe: 0, column });
    debug_assert_eq!(object.name.placement_key(), column_tag(log, range.id, column, salt));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Placement by a checksum of the placement key.
    struct Targets(usize);

    impl Locate for Targets {
        fn locate(&self, object: &ObjectId) -> TargetName {
            let hash = crc32c::crc32c(object.name.placement_key().as_bytes());
            self.targets()[hash as usize % self.0].clone()
        }

        fn targets(&self) -> Vec<TargetName> {
            (0..self.0).map(|n| TargetName::new(format!("t{n}")).unwrap()).collect()
        }
    }

    fn targets_of(range: &StripeRange, placement: &Targets) -> Vec<String> {
        let (log, pool) = (LogName::new("l").unwrap(), PoolName::new("p").unwrap());
        let objects = (0..3).flat_map(|stripe| range.stripe_places(stripe));
        let located = objects.map(|place| placement.locate(&range.object(&pool, &log, place)));
        located.map(|target| target.to_string()).collect()
    }

    fn laid(width: u32, placement: &Targets, avoid: &[TargetName]) -> Result<StripeRange> {
        let (log, pool) = (LogName::new("l").unwrap(), PoolName::new("p").unwrap());
        Layout { width, slots: 4 }.range(&log, &pool, 9, 0..1000, placement, avoid)
    }

    #[test]
    fn columns_use_the_live_targets_in_turn() {
        let placement = Targets(4);
        let dead = TargetName::new("t2").unwrap();
        let range = laid(6, &placement, std::slice::from_ref(&dead)).unwrap();
        let located = targets_of(&range, &placement);
        assert!(!located.contains(&dead.to_string()), "{located:?}");
        for target in ["t0", "t1", "t3"] {
            let count = located.iter().filter(|name| *name == target).count();
            assert_eq!(count, 2 * 3, "{target} in {located:?}");
        }
    }

    #[test]
    fn without_a_live_target_there_is_no_range() {
        let placement = Targets(2);
        let error = laid(2, &placement, &placement.targets()).unwrap_err();
        assert_eq!(error.kind(), nacre_object::ErrorKind::Unavailable);
    }
}
