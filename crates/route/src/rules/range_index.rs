//! `RangeIndex`: finds the first of many rules that covers a byte.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{RuleId, Span};

/// Rules that differ only in their ranges of bytes.
///
/// `winners` holds disjoint ranges, each with the first rule that covers it, so a look-up is one
/// search. Removing a rule leaves gaps in `winners`, and `by_length` finds the rules that fill
/// them. It groups rules into classes of similar length. So the rules of a class that can reach
/// into a gap begin near the gap, and the search skips all others.
#[derive(Debug, Clone, Default)]
pub struct RangeIndex {
    /// The key is the first byte of a range. The value is one past its last byte, and the first
    /// rule that covers it.
    winners: BTreeMap<u64, (u64, RuleId)>,
    /// By length class, first byte and rule: one past the last byte of the rule's range.
    by_length: BTreeMap<(u32, u64, RuleId), u64>,
    /// The number of rules in each length class.
    classes: BTreeMap<u32, usize>,
}

/// The length class of a range. Ranges of class `c` are shorter than `2^c` bytes, and at least half
/// as long.
fn class_of(span: Span) -> u32 {
    u64::BITS - span.length().leading_zeros()
}

impl RangeIndex {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.by_length.is_empty()
    }

    /// Adds a rule.
    pub fn insert(&mut self, rule: RuleId, span: Span) {
        let class = class_of(span);
        self.by_length.insert((class, span.start(), rule), span.end());
        *self.classes.entry(class).or_default() += 1;
        self.paint(rule, span);
    }

    /// Removes a rule that is in the index.
    pub fn remove(&mut self, rule: RuleId, span: Span) {
        let class = class_of(span);
        self.by_length.remove(&(class, span.start(), rule));
        if let Some(count) = self.classes.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.classes.remove(&class);
            }
        }
        let own = self.overlapping_winners(span).into_iter().filter(|(_, owner)| *owner == rule);
        let gaps: Vec<Span> = own.map(|(gap, _)| gap).collect();
        for gap in &gaps {
            self.winners.remove(&gap.start());
        }
        for gap in gaps {
            for (next, span) in self.rules_over(gap) {
                if let Some(part) = span.intersect(gap) {
                    self.paint(next, part);
                }
            }
        }
    }

    /// The first rule that covers a byte, and the end (exclusive) of the range for which that rule
    /// is the first.
    pub fn at(&self, byte: u64) -> (Option<RuleId>, u64) {
        if let Some((_, (end, rule))) = self.winners.range(..=byte).next_back()
            && *end > byte
        {
            return (Some(*rule), *end);
        }
        let next = self.winners.range(byte..).next();
        (None, next.map_or(Span::END, |(start, _)| *start))
    }

    /// Makes `rule` the winner of those bytes of `span` that have no winner. Present winners keep
    /// their bytes, because they come earlier in the table.
    fn paint(&mut self, rule: RuleId, span: Span) {
        let mut at = span.start();
        let taken = self.overlapping_winners(span).into_iter().map(|(taken, _)| taken);
        let ends = taken.map(|taken| (taken.start(), taken.end())).collect::<Vec<_>>();
        for (start, end) in ends.into_iter().chain([(span.end(), span.end())]) {
            if at < start {
                self.winners.insert(at, (start, rule));
            }
            at = end;
        }
    }

    /// The complete ranges that overlap `span`, each with its first rule.
    pub fn overlapping_winners(&self, span: Span) -> Vec<(Span, RuleId)> {
        let before = self.winners.range(..span.start()).next_back();
        let within = self.winners.range(span.start()..span.end());
        let all = before.into_iter().chain(within);
        let spans = all.filter_map(|(start, (end, rule))| Some((Span::new(*start, *end)?, *rule)));
        spans.filter(|(taken, _)| taken.overlaps(span)).collect()
    }

    /// The rules that cover a byte of `gap`, in the order of installation.
    fn rules_over(&self, gap: Span) -> BTreeSet<(RuleId, Span)> {
        let mut all = BTreeSet::new();
        for class in self.classes.keys() {
            let longest = 1_u64.checked_shl(*class).unwrap_or(u64::MAX);
            let from = (*class, gap.start().saturating_sub(longest), RuleId::FIRST);
            let to = (*class, gap.end(), RuleId::FIRST);
            for ((_, start, rule), end) in self.by_length.range(from..to) {
                let span = Span::new(*start, *end).filter(|span| span.overlaps(gap));
                all.extend(span.map(|span| (*rule, span)));
            }
        }
        all
    }
}
