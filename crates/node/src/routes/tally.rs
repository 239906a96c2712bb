//! `Tally`: counts what a node's switch does, for `nacre route status` and for Prometheus.
//!
//! An IO only increments a counter of the rule that decided about it. When rules change, the counters
//! of removed rules are added to the totals of their applications.

use std::collections::BTreeMap;

use nacre_object::ApplicationName;
use nacre_route::{FastHashMap, Rule, RuleId, RuleTable};

/// How many applications have series of their own in the metrics. All later ones share one.
const MAX_COUNTED_APPLICATIONS: usize = 64;

/// The label that these later applications share. No application can have this name.
pub(super) const OTHER_APPLICATIONS: &str = "(others)";

/// What the rules of one application have done since the node started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Pieces of IO about which its rules decided. An IO that is not split is one piece.
    pub decided: u64,
    /// Bytes that its rules had sent elsewhere, and that were moved home.
    pub brought_home: u64,
}

/// The counters of a switch. They never decrease.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The installed rules that have decided about IO.
    rules: FastHashMap<RuleId, Counted>,
    /// The totals without those of `rules`.
    applications: BTreeMap<ApplicationName, Totals>,
    others: Totals,
    /// Pieces of IO that went where the newest bytes were, because reads follow writes.
    pub followed: u64,
    /// IO that was sent in several pieces.
    pub split: u64,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    count: u64,
}

impl Tally {
    /// Records that a rule has decided about a piece of an IO.
    pub fn decided(&mut self, rule: RuleId, table: &RuleTable) {
        // The switch makes such a rule for each write. A counter for each would grow without bound.
        if rule.is_made() {
            self.followed += 1;
            return;
        }
        if let Some(counted) = self.rules.get_mut(&rule) {
            counted.count += 1;
            return;
        }
        if let Some(of) = table.get(rule) {
            self.rules.insert(rule, Counted { rule: of.clone(), count: 1 });
        }
    }

    /// Records that an IO is done, and how many pieces it had.
    pub fn finished(&mut self, pieces: usize) {
        self.split += u64::from(pieces > 1);
    }

    /// Records that bytes which an application had sent elsewhere were moved home, to the node that
    /// holds their object.
    pub fn brought_home(&mut self, application: &ApplicationName, bytes: u64) {
        self.totals_of(application).brought_home += bytes;
    }

    /// Records that the switch has new rules. A rule that was there before keeps its counter.
    pub fn begin_rules(&mut self, table: &RuleTable) {
        let before = std::mem::take(&mut self.rules).into_values();
        let mut before: FastHashMap<Rule, u64> = before.map(|one| (one.rule, one.count)).collect();
        for (id, rule) in table.rules().filter(|(id, _)| !id.is_made()) {
            if before.is_empty() {
                break;
            }
            if let Some((rule, count)) = before.remove_entry(rule) {
                self.rules.insert(id, Counted { rule, count });
            }
        }
        for (rule, count) in before {
            self.totals_of(&rule.application).decided += count;
        }
    }

    /// How many pieces of IO an installed rule has decided about.
    pub fn count(&self, rule: RuleId) -> u64 {
        self.rules.get(&rule).map_or(0, |counted| counted.count)
    }

    /// The label of an application in the metrics. It stays the same for the life of the node.
    pub fn label(&mut self, application: &ApplicationName) -> String {
        self.totals_of(application);
        match self.applications.contains_key(application) {
            true => application.to_string(),
            false => OTHER_APPLICATIONS.to_owned(),
        }
    }

    /// The totals of each application, by label.
    pub fn totals(&mut self) -> BTreeMap<String, Totals> {
        let counted = self.rules.values().map(|one| (one.rule.application.clone(), one.count));
        let counted: Vec<_> = counted.collect();
        let mut totals = BTreeMap::new();
        for (application, count) in counted {
            let label = self.label(&application);
            totals.entry(label).or_insert_with(Totals::default).decided += count;
        }
        let own = self.applications.iter().map(|(name, totals)| (name.to_string(), *totals));
        let others = (self.others != Totals::default())
            .then(|| (OTHER_APPLICATIONS.to_owned(), self.others));
        for (label, before) in own.chain(others) {
            let sum = totals.entry(label).or_default();
            sum.decided += before.decided;
            sum.brought_home += before.brought_home;
        }
        totals
    }

    fn totals_of(&mut self, application: &ApplicationName) -> &mut Totals {
        if !self.applications.contains_key(application)
            && self.applications.len() >= MAX_COUNTED_APPLICATIONS
        {
            return &mut self.others;
        }
        self.applications.entry(application.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with one rule of each application, and the rules' ids.
    fn table(applications: &[&str]) -> (RuleTable, Vec<RuleId>) {
        let mut table = RuleTable::default();
        let rule = |application: &&str| {
            let line = format!("* w data/{application} -> target storage.1 follow");
            Rule::from_line(&application.parse().unwrap(), &line).unwrap()
        };
        let ids = applications.iter().flat_map(|one| table.insert(vec![rule(one)]).unwrap());
        let ids = ids.collect();
        (table, ids)
    }

    #[test]
    fn totals_of_an_application_do_not_decrease_when_rules_change() {
        let mut tally = Tally::default();
        let (old, ids) = table(&["a", "b"]);
        for rule in [ids[0], ids[0], ids[1]] {
            tally.decided(rule, &old);
        }
        assert_eq!((tally.count(ids[0]), tally.count(ids[1])), (2, 1));
        tally.brought_home(&"a".parse().unwrap(), 100);
        let (new, ids) = table(&["c", "b"]);
        tally.begin_rules(&new);
        assert_eq!(tally.count(ids[0]), 0);
        assert_eq!(tally.count(ids[1]), 1, "a rule that stays keeps its counter");
        tally.decided(ids[1], &new);
        let totals = tally.totals();
        assert_eq!(totals["a"], Totals { decided: 2, brought_home: 100 });
        assert_eq!(totals["b"], Totals { decided: 2, brought_home: 0 });
    }

    #[test]
    fn applications_past_the_bound_share_a_label() {
        let mut tally = Tally::default();
        for number in 0..MAX_COUNTED_APPLICATIONS + 2 {
            tally.brought_home(&format!("a{number}").parse().unwrap(), 1);
        }
        // It sorts before all others, and yet their labels stay as they are.
        tally.brought_home(&"A".parse().unwrap(), 1);
        let totals = tally.totals();
        assert_eq!(totals.len(), MAX_COUNTED_APPLICATIONS + 1);
        assert_eq!(totals[OTHER_APPLICATIONS].brought_home, 3);
        assert_eq!(tally.label(&"a0".parse().unwrap()), "a0");
        assert_eq!(tally.label(&"new".parse().unwrap()), OTHER_APPLICATIONS);
    }

    #[test]
    fn an_io_counts_as_split_when_it_had_several_pieces() {
        let mut tally = Tally::default();
        for pieces in [1, 2, 0, 3] {
            tally.finished(pieces);
        }
        assert_eq!(tally.split, 2);
    }
}
