//! The view, and the steps from one to the next.

use nacre_host::Authority;
use nacre_object::{
    ClassName, Error, Locate, NodeName, ObjectId, PoolName, ProgramName, Result, TargetName,
};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::range::{EntryLocation, StripeRange};
use crate::LogName;
use crate::codec::POSITION_END;
use crate::limits::{MAX_COLUMNS, MAX_RANGES};

/// The format this release reads and writes.
const FORMAT: u32 = 1;
/// A new log's first range id is greater by this than the last range id of a removed log of the
/// same name. The id in between stays unused: the old sequencer may have sealed objects for a range
/// with that id, but not stored the range.
const RANGE_ID_GAP: u32 = 2;
/// The id of a log's first range is below this bound. So the log has at least this many ids for
/// later ranges.
pub const FIRST_RANGE_BOUND: u32 = 1 << 31;

/// One view of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    log: LogName,
    pool: PoolName,
    epoch: u64,
    /// The epoch by which the log was made.
    born: u64,
    is_removed: bool,
    class: ClassName,
    capability: Option<ProgramName>,
    sequencer: Option<Authority>,
    kept_from: u64,
    ranges: Vec<StripeRange>,
}

impl View {
    /// The view of a new log: one stripe, without the targets to be avoided, and no sequencer yet.
    /// Its objects are sealed before the view is proposed.
    ///
    /// The ids of the log's ranges begin with `first_range`, and are part of the names of its
    /// objects. The caller draws `first_range` at random below `FIRST_RANGE_BOUND`. This protects
    /// the new log if an earlier log of its name has lost its view with a storage target: the new
    /// log then does not use the remaining objects of the earlier one.
    ///
    /// # Errors
    /// `Invalid` for a layout out of bounds.
    pub fn first(
        log: LogName,
        pool: PoolName,
        class: ClassName,
        layout: Layout,
        first_range: u32,
        placement: &dyn Locate,
        avoid: &[TargetName],
    ) -> Result<Self> {
        let stripe = u64::from(layout.check()?.width) * u64::from(layout.slots);
        let range = layout.range(&log, &pool, first_range, 0..stripe, placement, avoid)?;
        Ok(Self {
            log,
            pool,
            epoch: 1,
            born: 1,
            is_removed: false,
            class,
            capability: None,
            sequencer: None,
            kept_from: 0,
            ranges: vec![range],
        })
    }

    /// The first view of a new log that gets the name of this removed log. The names of the new
    /// log's objects differ from all object names of this one. Its objects are sealed before the
    /// view is proposed.
    ///
    /// # Errors
    /// As for [`View::first`]; `Exhausted` if so many logs had this name that no range ids are
    /// left.
    pub fn reborn(
        &self,
        pool: PoolName,
        class: ClassName,
        layout: Layout,
        placement: &dyn Locate,
        avoid: &[TargetName],
    ) -> Result<Self> {
        let epoch = self.epoch + 1;
        let used_up = || {
            Error::exhausted("the name was used for too many logs that are removed")
                .on(&self.log)
                .hint("choose another name")
        };
        let id = self.last_range().id.checked_add(RANGE_ID_GAP).ok_or_else(used_up)?;
        let stripe = u64::from(layout.check()?.width) * u64::from(layout.slots);
        let range = layout.range(&self.log, &pool, id, 0..stripe, placement, avoid)?;
        let (log, ranges) = (self.log.clone(), vec![range]);
        Ok(Self {
            log,
            pool,
            epoch,
            born: epoch,
            is_removed: false,
            class,
            capability: None,
            sequencer: None,
            kept_from: 0,
            ranges,
        })
    }

    /// The log it is a view of.
    pub fn log(&self) -> &LogName {
        &self.log
    }

    /// Counts views.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch at which the log was created. It distinguishes the log from removed logs of the
    /// same name.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// Whether the log was removed. Its objects may not be buried yet, see [`View::is_buried`].
    pub fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Whether the log was removed, and all its objects are buried.
    pub fn is_buried(&self) -> bool {
        self.is_removed && self.kept_from >= self.end()
    }

    /// The class that implements the storage interface.
    pub fn class(&self) -> &ClassName {
        &self.class
    }

    /// The program that decides which client holds the sequencer's capability; `None` for the
    /// default policy.
    pub fn capability(&self) -> Option<&ProgramName> {
        self.capability.as_ref()
    }

    /// The sequencer, which issues positions; `None` before the first one.
    pub fn sequencer(&self) -> Option<&Authority> {
        self.sequencer.as_ref()
    }

    /// Positions below are trimmed, and their objects may be buried.
    pub fn kept_from(&self) -> u64 {
        self.kept_from
    }

    /// The ranges, in order; there is always a last one.
    pub fn ranges(&self) -> &[StripeRange] {
        &self.ranges
    }

    /// The range to which new records go.
    pub fn last_range(&self) -> &StripeRange {
        self.ranges.last().expect("a view has a range")
    }

    /// One past the last position that has an object.
    pub fn end(&self) -> u64 {
        self.last_range().end
    }

    /// No tail is below: see the invariants of the module.
    pub fn lowest_tail(&self) -> u64 {
        self.last_range().first.max(self.kept_from)
    }

    /// The object of a position. `None` if the position is forgotten, or if no range contains it
    /// yet.
    pub fn place(&self, position: u64) -> Option<EntryLocation> {
        self.range_of(position).map(|range| range.place(position))
    }

    /// The range a position is in.
    pub fn range_of(&self, position: u64) -> Option<&StripeRange> {
        let after = self.ranges.partition_point(|range| range.end <= position);
        self.ranges.get(after).filter(|range| range.contains(position))
    }

    /// The object of a place.
    pub fn object(&self, place: EntryLocation) -> Option<ObjectId> {
        Some(self.range_by_id(place.range)?.object(&self.pool, &self.log, place))
    }

    fn range_by_id(&self, id: u32) -> Option<&StripeRange> {
        let at = self.ranges.binary_search_by_key(&id, |range| range.id).ok()?;
        self.ranges.get(at)
    }

    /// Whether all positions of an object are forgotten as trimmed, so that the object may be
    /// buried.
    pub fn is_forgotten(&self, place: EntryLocation) -> bool {
        let range = self.range_by_id(place.range);
        range.is_none_or(|range| range.stripe_end(place.stripe) <= self.kept_from)
    }

    /// The targets of the last range, each once.
    pub fn current_targets(&self, placement: &dyn Locate) -> Vec<TargetName> {
        let range = self.last_range();
        let objects =
            range.stripe_places(0).map(|place| range.object(&self.pool, &self.log, place));
        let mut targets: Vec<_> = objects.map(|object| placement.locate(&object)).collect();
        targets.sort();
        targets.dedup();
        targets
    }

    /// How many more ranges with this number of columns fit into the view.
    pub fn ranges_left(&self, width: u32) -> usize {
        let by_columns = MAX_COLUMNS.saturating_sub(self.column_count()) / width.max(1) as usize;
        by_columns.min(MAX_RANGES.saturating_sub(self.ranges.len()))
    }

    fn column_count(&self) -> usize {
        self.ranges.iter().map(|range| range.columns.len()).sum()
    }

    /// The layout of the last range.
    pub fn layout(&self) -> Layout {
        let range = self.last_range();
        Layout { width: range.columns.len() as u32, slots: range.slots }
    }

    /// The successor in which `node` is the sequencer. `claim` is the number of its claim.
    pub fn claimed_by(&self, node: NodeName, claim: u64) -> Self {
        let mut next = self.successor();
        next.sequencer = Some(Authority { node, epoch: next.epoch, claim });
        next
    }

    /// The next view: its last range has this many more stripes.
    ///
    /// # Errors
    /// `Exhausted` if the range would exceed the greatest position.
    pub fn extended(&self, stripes: u64) -> Result<Self> {
        let mut next = self.successor();
        let range = next.ranges.last_mut().expect("a view has a range");
        let begun = range.stripe_count() + stripes;
        let end =
            begun.checked_mul(range.stripe_positions()).and_then(|n| n.checked_add(range.first));
        range.end = end.filter(|end| *end <= POSITION_END).ok_or_else(no_positions)?;
        Ok(next)
    }

    /// The next view: the last range is cut at `tail`, and a new range of one stripe with this
    /// layout follows.
    ///
    /// # Errors
    /// `Invalid` for a layout out of bounds or a tail outside of the last range, `Exhausted` past
    /// `MAX_RANGES` or `MAX_COLUMNS`, `Unavailable` if every target must be avoided.
    pub fn cut(
        &self,
        tail: u64,
        layout: Layout,
        placement: &dyn Locate,
        avoid: &[TargetName],
    ) -> Result<Self> {
        let last = self.last_range();
        if tail < last.first || tail > last.end {
            return Err(Error::invalid(format!("position {tail} is not in the log's last range"))
                .on(&self.log));
        }
        let end = tail + u64::from(layout.check()?.width) * u64::from(layout.slots);
        if end > POSITION_END {
            return Err(no_positions());
        }
        let id = last.id + 1;
        let range = layout.range(&self.log, &self.pool, id, tail..end, placement, avoid)?;
        let mut next = self.successor();
        let last = next.ranges.last_mut().expect("a view has a range");
        last.end = tail;
        if last.first == tail {
            next.ranges.pop();
        }
        if next.ranges_left(layout.width) == 0 {
            return Err(next.no_ranges());
        }
        next.ranges.push(range);
        Ok(next)
    }

    /// The error for a layout that needs more ranges than the view may have.
    pub(crate) fn no_ranges(&self) -> Error {
        let (ranges, columns) = (self.ranges.len(), self.column_count());
        Error::exhausted(format!("the log's view has no room for another range: it has {ranges} ranges of {columns} columns"))
            .on(&self.log)
            .hint("trim the log: wholly trimmed ranges leave the view")
    }

    /// The successor in which everything below `position` is forgotten as trimmed.
    pub fn forgetting_below(&self, position: u64) -> Self {
        let mut next = self.successor();
        next.kept_from = self.kept_from.max(position);
        let last = self.last_range().id;
        next.ranges.retain(|range| range.id == last || range.end > next.kept_from);
        next
    }

    /// The successor in which the log is removed and has no sequencer.
    pub fn removed(&self) -> Self {
        Self { is_removed: true, sequencer: None, ..self.successor() }
    }

    /// The successor that differs only in its epoch. Storing it proves that views can be stored.
    pub fn renewed(&self) -> Self {
        self.successor()
    }

    /// The successor that uses another class.
    pub fn with_class(&self, class: ClassName) -> Self {
        Self { class, ..self.successor() }
    }

    /// The successor whose sequencer lends its capability by another policy.
    pub fn with_capability(&self, capability: Option<ProgramName>) -> Self {
        Self { capability, ..self.successor() }
    }

    fn successor(&self) -> Self {
        Self { epoch: self.epoch + 1, ..self.clone() }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let stored = StoredView {
            format: FORMAT,
            born: self.born,
            is_removed: self.is_removed,
            log: self.log.to_string(),
            pool: self.pool.to_string(),
            epoch: self.epoch,
            class: self.class.to_string(),
            capability: self.capability.as_ref().map(ProgramName::to_string),
            sequencer: self.sequencer.as_ref().map(|sequencer| StoredSequencer {
                node: sequencer.node.to_string(),
                epoch: sequencer.epoch,
                claim: sequencer.claim,
            }),
            kept_from: self.kept_from,
            ranges: self.ranges.clone(),
        };
        serde_json::to_vec(&stored).expect("a view has no map with keys that are not text")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// `Corrupt` if it makes no sense, `Unsupported` for a later format.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        let damaged = |what: String| Error::corrupt(format!("the log's view is damaged: {what}"));
        let stored: StoredView =
            serde_json::from_slice(encoded).map_err(|error| damaged(error.to_string()))?;
        if stored.format != FORMAT {
            return Err(Error::unsupported(format!(
                "the log's view has the unknown format {}",
                stored.format
            ))
            .hint("a later release wrote the view: upgrade this one"));
        }
        stored.parse().map_err(damaged)
    }
}

fn no_positions() -> Error {
    Error::exhausted(format!("the log ends at position {POSITION_END}"))
}

/// The stored form of a view: JSON, so that people can read it with `nacre map show`.
#[derive(Serialize, Deserialize)]
struct StoredView {
    format: u32,
    log: String,
    pool: String,
    epoch: u64,
    born: u64,
    #[serde(rename = "removed")]
    is_removed: bool,
    class: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capability: Option<String>,
    sequencer: Option<StoredSequencer>,
    kept_from: u64,
    ranges: Vec<StripeRange>,
}

#[derive(Serialize, Deserialize)]
struct StoredSequencer {
    node: String,
    epoch: u64,
    claim: u64,
}

impl StoredView {
    fn parse(self) -> Result<View, String> {
        let text = |error: Error| error.message().to_owned();
        let sequencer = match self.sequencer {
            Some(StoredSequencer { node, epoch, claim }) => {
                Some(Authority { node: node.parse().map_err(text)?, epoch, claim })
            }
            None => None,
        };
        let view = View {
            log: self.log.parse().map_err(text)?,
            pool: self.pool.parse().map_err(text)?,
            epoch: self.epoch,
            born: self.born,
            is_removed: self.is_removed,
            class: self.class.parse().map_err(text)?,
            capability: self.capability.map(|name| name.parse().map_err(text)).transpose()?,
            sequencer,
            kept_from: self.kept_from,
            ranges: self.ranges,
        };
        view.check().map(|()| view)
    }
}

impl View {
    /// The invariants of the module, for what comes from outside.
    fn check(&self) -> Result<(), String> {
        if self.epoch == 0 || self.sequencer.as_ref().is_some_and(|s| s.epoch > self.epoch) {
            return Err(format!("epoch {}", self.epoch));
        }
        if !(1..=self.epoch).contains(&self.born) {
            return Err(format!("a log born at epoch {}", self.born));
        }
        if self.ranges.is_empty() || self.ranges.len() > MAX_RANGES {
            return Err(format!("{} ranges", self.ranges.len()));
        }
        if self.column_count() > MAX_COLUMNS {
            return Err(format!("{} columns", self.column_count()));
        }
        for range in &self.ranges {
            let layout = Layout { width: range.columns.len() as u32, slots: range.slots };
            layout.check().map_err(|error| error.message().to_owned())?;
            if range.first >= range.end || range.end > POSITION_END {
                return Err(format!("positions {}..{}", range.first, range.end));
            }
        }
        let adjacent =
            |pair: &[StripeRange]| pair[0].end == pair[1].first && pair[0].id < pair[1].id;
        if !self.ranges.windows(2).all(adjacent) {
            return Err("its ranges are not in order".into());
        }
        Ok(())
    }
}
