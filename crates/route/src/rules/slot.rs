//! `Slot`: the rules for one source, home, operation and object, found by byte.

use std::collections::BTreeSet;

use nacre_object::TargetName;

use super::range_index::RangeIndex;
use crate::fast_hash::FastHashMap;
use crate::model::{Operation, RuleId, SourceMatch, Span};

/// Rules that differ only in their ranges of bytes.
#[derive(Debug, Clone, Default)]
pub struct Slot {
    /// Rules about all bytes. They are kept apart from `ranges`, where each earlier range would
    /// split them.
    whole: BTreeSet<RuleId>,
    ranges: RangeIndex,
    /// Rules that the switch made itself. Their ranges are disjoint.
    made: RangeIndex,
}

impl Slot {
    fn insert(&mut self, rule: RuleId, span: Span) {
        match span {
            span if rule.is_made() => self.made.insert(rule, span),
            Span::WHOLE => drop(self.whole.insert(rule)),
            span => self.ranges.insert(rule, span),
        }
    }

    fn remove(&mut self, rule: RuleId, span: Span) {
        match span {
            span if rule.is_made() => self.made.remove(rule, span),
            Span::WHOLE => drop(self.whole.remove(&rule)),
            span => self.ranges.remove(rule, span),
        }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.ranges.is_empty() && self.made.is_empty()
    }

    /// The first rule that matches IO without bytes.
    pub fn without_bytes(&self) -> Option<RuleId> {
        self.whole.first().copied()
    }

    /// The rules that the switch made and that overlap `span`, each with its complete range.
    pub fn made_over(&self, span: Span) -> Vec<(Span, RuleId)> {
        self.made.overlapping_winners(span)
    }

    /// The first rule that covers a byte, and the end (exclusive) of the range for which that rule
    /// is the first.
    pub fn at(&self, byte: u64) -> (Option<RuleId>, u64) {
        let (made, made_end) = self.made.at(byte);
        let (ranged, end) = self.ranges.at(byte);
        let first = [made, ranged, self.without_bytes()].into_iter().flatten().min();
        (first, end.min(made_end))
    }
}

/// The IO that the rules of a slot match, except for object and bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotKey {
    pub source: SourceMatch,
    /// `None` for rules about objects of all targets.
    pub home: Option<TargetName>,
    pub operation: Operation,
}

impl SlotKey {
    /// Whether it is for any source and any home.
    fn is_of_any(&self) -> bool {
        self.source == SourceMatch::Any && self.home.is_none()
    }
}

/// The slots of one object, prefix or pattern.
///
/// Most rules are for any source and any home. Their slots are found without hashing and without
/// keys.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    /// Rules for any source and any home, with their operation.
    any: Vec<(Operation, Slot)>,
    named: FastHashMap<SlotKey, Slot>,
}

impl Slots {
    pub fn insert(&mut self, key: SlotKey, rule: RuleId, span: Span) {
        let slot = match key.is_of_any() {
            true => {
                let at = self.any.iter().position(|(own, _)| *own == key.operation);
                let at = at.unwrap_or_else(|| {
                    self.any.push((key.operation, Slot::default()));
                    self.any.len() - 1
                });
                &mut self.any[at].1
            }
            false => self.named.entry(key).or_default(),
        };
        slot.insert(rule, span);
    }

    pub fn remove(&mut self, key: &SlotKey, rule: RuleId, span: Span) {
        if key.is_of_any() {
            self.any.retain_mut(|(operation, slot)| {
                if *operation == key.operation {
                    slot.remove(rule, span);
                }
                !slot.is_empty()
            });
        } else if let Some(slot) = self.named.get_mut(key) {
            slot.remove(rule, span);
            if slot.is_empty() {
                self.named.remove(key);
            }
        }
    }

    /// The rules for any source and any home.
    pub fn of_any(&self, operation: Operation) -> Option<&Slot> {
        self.any.iter().find(|(own, _)| *own == operation).map(|(_, slot)| slot)
    }

    /// The rules for a key that names a source or a home.
    pub fn of_named(&self, key: &SlotKey) -> Option<&Slot> {
        self.named.get(key)
    }

    /// Whether there are rules for single sources or homes.
    pub fn has_named(&self) -> bool {
        !self.named.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.named.is_empty()
    }
}
