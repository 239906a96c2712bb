//! `Slot`: the rules for one source, home, operation and object, found by byte.

use std::collections::BTreeSet;

use nacre_object::TargetName;

use super::range_index::RangeIndex;
use crate::fast_hash::FastHashMap;
use crate::model::{LayerName, Operation, RuleId, SourceMatch, Span};

/// Rules that differ only in their ranges of bytes.
#[derive(Debug, Clone, Default)]
pub struct Slot {
    /// Rules about all bytes. They are kept apart from `ranges`, where each earlier range would
    /// split them.
    whole: BTreeSet<RuleId>,
    ranges: RangeIndex,
    /// Rules that the switch made itself. Their ranges are disjoint.
    made: RangeIndex,
    /// Rules that send IO to a waypoint. They do not match IO that comes from this waypoint, so they
    /// are kept apart. There are few.
    waypoints: Vec<(RuleId, Span, LayerName)>,
}

/// What a slot says of a byte.
pub struct AtByte {
    /// The rule that the switch made about the byte.
    pub made: Option<RuleId>,
    /// The first installed rule about the byte.
    pub installed: Option<RuleId>,
    /// The end (exclusive) of the range for which both are the same.
    pub until: u64,
}

impl Slot {
    fn insert(&mut self, rule: RuleId, span: Span, waypoint: Option<&LayerName>) {
        match (span, waypoint) {
            (span, _) if rule.is_made() => self.made.insert(rule, span),
            (span, Some(layer)) => self.waypoints.push((rule, span, layer.clone())),
            (Span::WHOLE, None) => drop(self.whole.insert(rule)),
            (span, None) => self.ranges.insert(rule, span),
        }
    }

    fn remove(&mut self, rule: RuleId, span: Span, waypoint: Option<&LayerName>) {
        match (span, waypoint) {
            (span, _) if rule.is_made() => self.made.remove(rule, span),
            (_, Some(_)) => self.waypoints.retain(|(other, ..)| *other != rule),
            (Span::WHOLE, None) => drop(self.whole.remove(&rule)),
            (span, None) => self.ranges.remove(rule, span),
        }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty()
            && self.ranges.is_empty()
            && self.made.is_empty()
            && self.waypoints.is_empty()
    }

    /// The first rule that matches IO without bytes. `via` is the layer from which the IO comes.
    pub fn without_bytes(&self, via: Option<&LayerName>) -> Option<RuleId> {
        let to_others = self.waypoints_after(via).filter(|(_, span, _)| *span == Span::WHOLE);
        let whole = self.whole.first().copied();
        to_others.map(|(rule, ..)| *rule).chain(whole).min()
    }

    /// The rules that send IO to a waypoint, for IO that comes from the layer `via`.
    fn waypoints_after(
        &self,
        via: Option<&LayerName>,
    ) -> impl Iterator<Item = &(RuleId, Span, LayerName)> {
        self.waypoints.iter().filter(move |(_, _, layer)| Some(layer) != via)
    }

    /// The rules that the switch made and that overlap `span`, each with its complete range.
    pub fn made_over(&self, span: Span) -> Vec<(Span, RuleId)> {
        self.made.overlapping_winners(span)
    }

    /// The rules about a byte. `via` is the layer from which the IO comes.
    pub fn at(&self, byte: u64, via: Option<&LayerName>) -> AtByte {
        let (made, made_end) = self.made.at(byte);
        let (ranged, end) = self.ranges.at(byte);
        let mut installed = [ranged, self.whole.first().copied()].into_iter().flatten().min();
        let mut until = end.min(made_end);
        for (rule, span, _) in self.waypoints_after(via) {
            if span.start() > byte {
                until = until.min(span.start());
            } else if span.end() > byte {
                until = until.min(span.end());
                installed = Some(installed.map_or(*rule, |first| first.min(*rule)));
            }
        }
        AtByte { made, installed, until }
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
    pub fn insert(&mut self, key: SlotKey, rule: RuleId, span: Span, waypoint: Option<&LayerName>) {
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
        slot.insert(rule, span, waypoint);
    }

    pub fn remove(
        &mut self,
        key: &SlotKey,
        rule: RuleId,
        span: Span,
        waypoint: Option<&LayerName>,
    ) {
        if key.is_of_any() {
            self.any.retain_mut(|(operation, slot)| {
                if *operation == key.operation {
                    slot.remove(rule, span, waypoint);
                }
                !slot.is_empty()
            });
        } else if let Some(slot) = self.named.get_mut(key) {
            slot.remove(rule, span, waypoint);
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
