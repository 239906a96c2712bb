//! `Slot`: the rules for one source, operation and object, found by byte.

use std::collections::{BTreeSet, HashMap};

use super::range_index::RangeIndex;
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

/// The slots of one object, prefix or pattern, by source and operation.
///
/// Most rules are for any source. Their slots are found without hashing and without keys.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    /// Rules for any source, with their operation.
    any: Vec<(Operation, Slot)>,
    named: HashMap<(SourceMatch, Operation), Slot>,
}

impl Slots {
    pub fn insert(&mut self, key: (SourceMatch, Operation), rule: RuleId, span: Span) {
        let slot = match key {
            (SourceMatch::Any, operation) => {
                let at = self.any.iter().position(|(own, _)| *own == operation);
                let at = at.unwrap_or_else(|| {
                    self.any.push((operation, Slot::default()));
                    self.any.len() - 1
                });
                &mut self.any[at].1
            }
            named => self.named.entry(named).or_default(),
        };
        slot.insert(rule, span);
    }

    pub fn remove(&mut self, key: &(SourceMatch, Operation), rule: RuleId, span: Span) {
        if key.0 == SourceMatch::Any {
            self.any.retain_mut(|(operation, slot)| {
                if *operation == key.1 {
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

    /// The rules for any source.
    pub fn of_any(&self, operation: Operation) -> Option<&Slot> {
        self.any.iter().find(|(own, _)| *own == operation).map(|(_, slot)| slot)
    }

    /// The rules for one source that is not `Any`.
    pub fn of_source(&self, key: &(SourceMatch, Operation)) -> Option<&Slot> {
        self.named.get(key)
    }

    /// Whether there are rules for single sources.
    pub fn has_sources(&self) -> bool {
        !self.named.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.named.is_empty()
    }
}
