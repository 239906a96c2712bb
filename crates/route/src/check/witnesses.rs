//! Finds one object for each combination of rules that match a common object. The analysis tests
//! only these objects.
//!
//! It treats the objects of rules (names, prefixes and patterns) as one automaton that reads the
//! string `POOL/NAME` letter by letter. A state of the automaton says how many letters of each
//! name, prefix or pattern have matched so far. A breadth-first search finds the shortest object
//! for each set of matchers that match together.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use nacre_object::ObjectId;

use crate::limits::MAX_CHECK_STATES;
use crate::model::ObjectMatch;

/// The objects to test, and whether the search found all of them.
pub struct Witnesses {
    pub objects: Vec<ObjectId>,
    pub is_complete: bool,
}

/// A matcher as a sequence of letters and stars (`None`).
struct Glob(Vec<Option<char>>);

impl Glob {
    fn of(object: &ObjectMatch) -> Self {
        let letters = |text: &str| text.chars().map(Some).collect::<Vec<_>>();
        Self(match object {
            ObjectMatch::Exact(id) => letters(&id.to_string()),
            ObjectMatch::Prefix(prefix) => [letters(prefix), vec![None]].concat(),
            ObjectMatch::Pattern(pattern) => {
                let pieces: Vec<_> = pattern.pieces().iter().map(|piece| letters(piece)).collect();
                pieces.join(&None)
            }
        })
    }

    /// Adds a position to `into`, and all positions behind stars that follow it directly.
    fn rest(&self, from: usize, into: &mut BTreeSet<usize>) {
        into.insert(from);
        if self.0.get(from) == Some(&None) {
            self.rest(from + 1, into);
        }
    }

    fn next(&self, at: &BTreeSet<usize>, letter: char) -> BTreeSet<usize> {
        let mut next = BTreeSet::new();
        for position in at {
            match self.0.get(*position) {
                Some(None) => self.rest(*position, &mut next),
                Some(Some(own)) if *own == letter => self.rest(position + 1, &mut next),
                _ => {}
            }
        }
        next
    }

    fn matches(&self, at: &BTreeSet<usize>) -> bool {
        at.contains(&self.0.len())
    }
}

/// For each matcher that can still match, the positions that it has reached.
type State = BTreeMap<usize, BTreeSet<usize>>;

/// Whether the search is in the pool or in the name of the object `POOL/NAME`. A name has at least
/// one letter. A pool has only letters that are allowed in identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Pool { is_empty: bool },
    Name { is_empty: bool },
}

/// Finds the objects.
pub fn witnesses(matchers: &BTreeSet<ObjectMatch>) -> Witnesses {
    let globs: Vec<Glob> = matchers.iter().map(Glob::of).collect();
    let begin: State = globs
        .iter()
        .enumerate()
        .map(|(at, glob)| {
            let mut first = BTreeSet::new();
            glob.rest(0, &mut first);
            (at, first)
        })
        .collect();
    let fresh = fresh_letters(&globs);
    let mut queue = VecDeque::from([(begin, Part::Pool { is_empty: true }, String::new())]);
    let mut seen: HashMap<(State, Part), ()> = HashMap::new();
    let mut classes: BTreeMap<Vec<usize>, ObjectId> = BTreeMap::new();
    let mut is_complete = true;
    while let Some((state, part, text)) = queue.pop_front() {
        if part == (Part::Name { is_empty: false })
            && let Ok(object) = text.parse::<ObjectId>()
        {
            let class = state.iter().filter(|(at, reached)| globs[**at].matches(reached));
            classes.entry(class.map(|(at, _)| *at).collect()).or_insert(object);
        }
        for letter in letters(&globs, &state, &fresh) {
            let Some(part) = part_after(part, letter) else { continue };
            let next: State = state
                .iter()
                .map(|(at, reached)| (*at, globs[*at].next(reached, letter)))
                .filter(|(_, reached)| !reached.is_empty())
                .collect();
            if seen.len() >= MAX_CHECK_STATES {
                is_complete = false;
                break;
            }
            if seen.insert((next.clone(), part), ()).is_none() {
                let mut text = text.clone();
                text.push(letter);
                queue.push_back((next, part, text));
            }
        }
    }
    Witnesses { objects: classes.into_values().collect(), is_complete }
}

fn part_after(part: Part, letter: char) -> Option<Part> {
    let is_identifier = letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    match (part, letter) {
        (Part::Pool { is_empty: false }, '/') => Some(Part::Name { is_empty: true }),
        (Part::Pool { .. }, _) if is_identifier => Some(Part::Pool { is_empty: false }),
        (Part::Pool { .. }, _) | (_, '\0') => None,
        (Part::Name { .. }, _) => Some(Part::Name { is_empty: false }),
    }
}

/// The letters to try next: those that a matcher expects, the slash, and one that no matcher
/// contains (it stands for all others).
fn letters(globs: &[Glob], state: &State, fresh: &[char]) -> BTreeSet<char> {
    let expected = state.iter().flat_map(|(at, reached)| {
        reached.iter().filter_map(|position| globs[*at].0.get(*position).copied().flatten())
    });
    expected.chain(['/']).chain(fresh.iter().copied()).collect()
}

/// A letter that no matcher contains.
fn fresh_letters(globs: &[Glob]) -> Vec<char> {
    let named: BTreeSet<char> =
        globs.iter().flat_map(|glob| glob.0.iter().flatten().copied()).collect();
    let all = ('a'..='z').rev().chain('0'..='9').chain('A'..='Z');
    all.filter(|letter| !named.contains(letter)).take(1).collect()
}
