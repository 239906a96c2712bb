//! The record of an update, which the controller stores before it changes a switch.

use std::collections::{BTreeMap, HashSet};

use nacre_object::{ObjectId, Result};

use crate::model::{
    Destination, Header, ObjectMatch, Operations, Programs, Rule, SourceMatch, Span, SwitchName,
};
use crate::rules::RuleTable;
use crate::switch::Term;

/// Objects whose bytes may be away from home, because a rule makes reads follow writes, or lets the
/// home keep fragments in place of the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Followed {
    /// The objects.
    pub object: ObjectMatch,
    /// Where the bytes may be.
    pub destination: Destination,
}

/// An order to move bytes from one location to another while no IO is in flight. If both locations
/// have a byte, the byte with the later stamp is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The object.
    pub object: ObjectId,
    /// The present location.
    pub from: Destination,
    /// The new location.
    pub to: Destination,
}

/// The rules of all switches that an update installs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The insertions of each switch that takes part.
    pub rules: BTreeMap<SwitchName, Vec<Vec<Rule>>>,
    /// The declarations of the programs that the rules name.
    pub programs: Programs,
    /// Bytes to move before the rules are installed.
    pub moves: Vec<Move>,
    /// Objects whose bytes are all home after the moves.
    pub settled: Vec<ObjectMatch>,
}

/// The record of an update. The controller stores it before it gives any order to a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The term of the rules. Each update has a new term, and so has each repetition of an update.
    pub term: Term,
    /// The rules to install.
    pub wanted: Wanted,
    /// Where bytes of objects may be, because of these or earlier rules.
    pub followed: Vec<Followed>,
}

impl Record {
    /// Creates the record of the next update.
    ///
    /// # Errors
    /// As [`RuleTable::insert`], if the rules do not fit into a switch.
    pub fn next(&self, wanted: Wanted) -> Result<Self> {
        let mut followed = self.followed.clone();
        for insertions in wanted.rules.values() {
            let mut table = RuleTable::default();
            for insertion in insertions {
                table.insert(insertion.clone())?;
            }
            follow(&mut followed, insertions, &wanted.programs);
        }
        // Keep objects whose bytes a rule may still move.
        let settled: HashSet<_> = wanted.settled.iter().collect();
        let rules = wanted.rules.values().flatten().flatten();
        let following = rules.filter(|rule| rule.moves_bytes());
        let kind = |to: &Destination| to.is_erasure();
        let following: HashSet<_> =
            following.map(|rule| (&rule.header.object, kind(&rule.destination))).collect();
        followed.retain(|old| {
            let is_ruled = following.contains(&(&old.object, kind(&old.destination)));
            is_ruled || !settled.contains(&old.object)
        });
        Ok(Self { term: Term(self.term.0 + 1), wanted, followed })
    }

    /// The same record with other versions of programs. It lists the destinations of the old
    /// versions too, because bytes may still be there.
    #[must_use]
    pub fn with_programs(mut self, programs: Programs) -> Self {
        for insertions in self.wanted.rules.values() {
            follow(&mut self.followed, insertions, &programs);
        }
        self.wanted.programs = programs;
        self
    }

    /// The same record under the next term.
    pub fn again(&self) -> Self {
        Self { term: Term(self.term.0 + 1), ..self.clone() }
    }

    /// The IO that an update from this record to the next concerns.
    pub fn concerned(&self, next: &Self) -> Vec<Header> {
        let (mut headers, mut known) = (vec![], HashSet::new());
        let mut add = |header: Header| {
            if known.insert(header.clone()) {
                headers.push(header);
            }
        };
        let none = vec![];
        let has_changed = |rule: &&Rule| match &rule.destination {
            Destination::Program(name) => {
                self.wanted.programs.get(name) != next.wanted.programs.get(name)
            }
            _ => false,
        };
        let rules = next.wanted.rules.values().flatten().flatten();
        rules.filter(has_changed).for_each(|rule| add(rule.header.clone()));
        for switch in self.wanted.rules.keys().chain(next.wanted.rules.keys()) {
            let old = self.wanted.rules.get(switch).unwrap_or(&none);
            let new = next.wanted.rules.get(switch).unwrap_or(&none);
            if old == new {
                continue;
            }
            let in_old: HashSet<_> = old.iter().flatten().collect();
            let in_new: HashSet<_> = new.iter().flatten().collect();
            let is_kept = |rule: &&Rule| in_old.contains(rule) && in_new.contains(rule);
            let changed = old.iter().chain(new).flatten().filter(|rule| !is_kept(rule));
            changed.for_each(|rule| add(rule.header.clone()));
        }
        let whole = |object: ObjectMatch| Header {
            source: SourceMatch::Any,
            operations: Operations::ALL,
            object,
            span: Span::WHOLE,
            home: None,
        };
        for Followed { object, .. } in self.followed.iter().chain(&next.followed) {
            add(whole(object.clone()));
        }
        for moved in &next.wanted.moves {
            add(whole(ObjectMatch::Exact(moved.object.clone())));
        }
        headers
    }
}

/// Adds where bytes may be because of these rules.
fn follow(followed: &mut Vec<Followed>, insertions: &[Vec<Rule>], programs: &Programs) {
    let mut known: HashSet<_> = followed.iter().cloned().collect();
    for rule in insertions.iter().flatten().filter(|rule| rule.moves_bytes()) {
        let declared = |name: &_| programs.get(name).map(|one| one.destinations.as_slice());
        for destination in rule.destination.possible(declared) {
            let (object, destination) = (rule.header.object.clone(), destination.clone());
            let new = Followed { object, destination };
            if known.insert(new.clone()) {
                followed.push(new);
            }
        }
    }
}
