//! Tests in a simulation that reads of copies are consistent with changes at the home. Clients, the
//! switch with the home, and the targets with copies use a network that loses, delays, repeats and
//! reorders messages. All of them crash and pause.
//!
//! A read returns the whole object as it was at some time between its beginning and its end. The
//! seed determines the whole run.

mod copied;

use std::time::Duration;

use copied::{MUST_HAPPEN, Sabotage, World};
use nacre_conformance::{SeedCases, find_planted_bug};
use nacre_object::{ObjectId, ObjectStat, TargetName};
use nacre_route::limits::{COPY_IDLE_TIME, MAX_COPIES_IN_THE_MAKING, MIN_TARGET_REST};
use nacre_route::{
    Copies, CopySettings, CopyState, Destination, MadeCopy, MakeFailure, Making, ReadFailure,
    ReadFrom, Scatter, Term,
};

const CASES: SeedCases =
    SeedCases { file: "copies_seeds.txt", text: include_str!("copies_seeds.txt") };
/// A planted bug must be found within this many seeds.
const SEEDS_TO_FIND_A_BUG: u64 = 1000;

#[test]
fn no_read_returns_older_data_than_was_acknowledged_or_read() {
    let trace = |seed| World::run(seed, None).map(|told| told.to_string());
    assert_eq!(trace(3), trace(3), "the same seed gives the same run");
    CASES.simulate(200, MUST_HAPPEN, |seed| World::run(seed, None));
}

#[test]
fn every_planted_bug_is_found() {
    for sabotage in Sabotage::ALL {
        let counts = |error: &str| error != World::RESTLESS;
        let seeds = 0..SEEDS_TO_FIND_A_BUG;
        find_planted_bug(sabotage, seeds, counts, |seed| World::run(seed, Some(sabotage)));
    }
}

fn scatter(line: &str) -> Scatter {
    match Destination::from_line(line).unwrap() {
        Destination::Scatter(scatter) => scatter,
        other => panic!("{other} is no scatter"),
    }
}

fn object(name: &str) -> ObjectId {
    format!("data/{name}").parse().unwrap()
}

/// The target that holds the objects.
fn home() -> TargetName {
    "s.0".parse().unwrap()
}

/// The object that stores the copies of an object at a target.
fn stored_in(name: &str, target: &TargetName) -> ObjectId {
    format!("routed/{target}/{name}").parse().unwrap()
}

/// The copies of a home `s.0` that orders a copy at the first read.
struct Fixture {
    copies: Copies,
    scatter: Scatter,
}

impl Fixture {
    fn new(line: &str) -> Self {
        let settings = CopySettings { reads: 1, ..CopySettings::default() };
        let mut copies = Copies::new(settings);
        copies.rules_changed(Term(1), |_| true);
        Self { copies, scatter: scatter(line) }
    }

    /// Reads; where the read went, and what copies are to be made.
    fn read(&mut self, seconds: u64, name: &str) -> (ReadFrom, Vec<Making>) {
        let now = Duration::from_secs(seconds);
        let planned = self.copies.read(now, (&object(name), &home()), &self.scatter, 0);
        self.copies.read_ended(match &planned.from {
            ReadFrom::Home => &self.scatter.among[0],
            ReadFrom::Copy { target, .. } => target,
        });
        (planned.from, planned.make)
    }

    fn made(&mut self, seconds: u64, making: &Making) {
        let stored_in = stored_in(making.object.name.as_str(), &making.target);
        let made = MadeCopy { stat: stat(10, 1), applied: 1, stored_in };
        self.copies.made(Duration::from_secs(seconds), making, Ok(made));
    }
}

fn stat(size: u64, version: u64) -> ObjectStat {
    ObjectStat { size, modified_micros: version, version }
}

/// The state of a copy that has just been made.
fn new_state(making: &Making) -> CopyState {
    CopyState { tag: making.tag, applied: 1 }
}

fn from(from: &ReadFrom) -> String {
    match from {
        ReadFrom::Home => "home".to_owned(),
        ReadFrom::Copy { target, .. } => target.to_string(),
    }
}

#[test]
fn reads_take_turns_among_the_home_and_the_current_copies() {
    let mut at = Fixture::new("one s.0,s.1,s.2 least-loaded");
    let (first, makings) = at.read(0, "x");
    assert_eq!((from(&first), makings.len()), ("home".to_owned(), 2));
    makings.iter().for_each(|making| at.made(0, making));
    let read: Vec<_> = (0..6).map(|_| from(&at.read(0, "x").0)).collect();
    for target in ["home", "s.1", "s.2"] {
        assert_eq!(read.iter().filter(|one| *one == target).count(), 2, "{read:?}");
    }
}

#[test]
fn a_home_that_the_rule_does_not_name_serves_reads_only_until_there_is_a_copy() {
    let mut at = Fixture::new("one s.1 random");
    let (first, makings) = at.read(0, "x");
    assert_eq!(from(&first), "home");
    at.made(0, &makings[0]);
    assert!((0..5).all(|_| from(&at.read(0, "x").0) == "s.1"));
}

#[test]
fn a_change_ends_the_use_of_copies_at_once_and_delays_new_ones() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    at.made(0, &makings[0]);
    at.copies.change_began(&object("x"));
    let (read, makings) = at.read(0, "x");
    assert_eq!((from(&read), makings), ("home".to_owned(), vec![]));
    assert_eq!(at.copies.take_to_drop(9).len(), 1);
    at.copies.change_ended(Duration::from_secs(5), &object("x"));
    assert_eq!(at.read(5, "x").1, [], "it has not been quiet for long enough");
    assert_eq!(at.read(6, "x").1.len(), 1);
}

#[test]
fn a_copy_during_whose_making_a_change_began_never_becomes_current() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    assert!(at.copies.is_wanted(&makings[0]));
    at.copies.change_began(&object("x"));
    at.copies.change_ended(Duration::ZERO, &object("x"));
    assert!(!at.copies.is_wanted(&makings[0]));
    at.made(0, &makings[0]);
    assert_eq!(from(&at.read(0, "x").0), "home");
    let dropped = at.copies.take_to_drop(9);
    assert_eq!(dropped[0].tag, makings[0].tag, "{dropped:?}");
}

#[test]
fn a_change_whose_end_is_not_told_ends_the_use_of_copies_too() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    at.made(0, &makings[0]);
    at.copies.leave_read_set(&object("x"));
    assert_eq!(from(&at.read(0, "x").0), "home");
}

#[test]
fn a_switch_without_rules_orders_no_copies_because_their_tags_would_not_be_unique() {
    let settings = CopySettings { reads: 1, ..CopySettings::default() };
    let mut copies = Copies::new(settings);
    let planned = copies.read(Duration::ZERO, (&object("x"), &home()), &scatter("one s.1"), 0);
    assert_eq!((planned.from, planned.make), (ReadFrom::Home, vec![]));
}

#[test]
fn a_silent_target_rests_for_a_growing_time_and_keeps_its_copies() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    at.made(0, &makings[0]);
    let (x, target, state) = (object("x"), makings[0].target.clone(), new_state(&makings[0]));
    let mut now = Duration::ZERO;
    for round in 0..4 {
        at.copies.read_failed(now, &x, (&target, state), ReadFailure::Target);
        let rest = MIN_TARGET_REST * (1 << round);
        let early = at.copies.read(now + rest / 2, (&x, &home()), &at.scatter, 0);
        assert_eq!(early.from, ReadFrom::Home);
        now += rest;
        let tried = at.copies.read(now, (&x, &home()), &at.scatter, 0);
        assert_eq!(from(&tried.from), "s.1");
        let second = at.copies.read(now, (&x, &home()), &at.scatter, 0);
        assert_eq!(second.from, ReadFrom::Home, "one read tries the target");
        at.copies.read_ended(&target);
    }
    at.copies.read_served(&target);
    assert_eq!(from(&at.copies.read(now, (&x, &home()), &at.scatter, 0).from), "s.1");
}

#[test]
fn a_copy_that_its_target_has_lost_is_made_again() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    at.made(0, &makings[0]);
    let lost = (&makings[0].target, new_state(&makings[0]));
    at.copies.read_failed(Duration::ZERO, &object("x"), lost, ReadFailure::Lost);
    let (read, again) = at.read(0, "x");
    assert_eq!(from(&read), "home");
    assert!(again[0].tag > makings[0].tag);
    assert_eq!(at.copies.summary().bytes, 0);
}

#[test]
fn a_copy_that_has_moved_to_another_target_is_dropped_and_made_again() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    at.made(0, &makings[0]);
    let moved = (&makings[0].target, new_state(&makings[0]));
    at.copies.read_failed(Duration::ZERO, &object("x"), moved, ReadFailure::Moved);
    let (read, again) = at.read(0, "x");
    assert_eq!((from(&read), again.len()), ("home".to_owned(), 1));
    let dropped = at.copies.take_to_drop(9);
    assert_eq!(dropped[0].stored_in, Some(stored_in("x", moved.0)));
    assert!(dropped[0].tag < again[0].tag, "the drop leaves the new copy");
}

#[test]
fn the_home_of_an_object_may_change_and_needs_no_copy() {
    let mut at = Fixture::new("one s.0,s.1 random");
    let (_, makings) = at.read(0, "x");
    at.made(0, &makings[0]);
    let other: TargetName = "s.1".parse().unwrap();
    let planned = at.copies.read(Duration::ZERO, (&object("x"), &other), &at.scatter, 1);
    assert_eq!(planned.from, ReadFrom::Home, "s.1 is the home now");
    assert_eq!(planned.make[0].target, home());
    assert!(at.copies.is_current(&object("x"), &other, &other));
}

#[test]
fn an_object_that_is_too_large_is_not_tried_again_until_it_changes() {
    let mut at = Fixture::new("one s.1 random");
    let (_, makings) = at.read(0, "x");
    at.copies.made(Duration::ZERO, &makings[0], Err(MakeFailure::TooLarge));
    assert_eq!(at.read(9, "x").1, []);
    at.copies.change_began(&object("x"));
    at.copies.change_ended(Duration::from_secs(9), &object("x"));
    assert_eq!(at.read(10, "x").1.len(), 1);
}

#[test]
fn only_a_few_copies_are_made_at_once() {
    let mut at = Fixture::new("one s.1 random");
    let makings: Vec<_> = (0..9).flat_map(|n| at.read(0, &format!("x{n}")).1).collect();
    assert_eq!(makings.len(), MAX_COPIES_IN_THE_MAKING);
    at.made(0, &makings[0]);
    assert_eq!(at.read(0, "x8").1.len(), 1);
}

#[test]
fn copies_are_dropped_when_no_rule_allows_them_and_when_nobody_reads() {
    let mut at = Fixture::new("one s.1 random");
    for name in ["x", "y"] {
        let (_, makings) = at.read(0, name);
        at.made(0, &makings[0]);
    }
    assert!(at.copies.take_sweep() && !at.copies.take_sweep());
    at.copies.rules_changed(Term(2), |one| *one == object("y"));
    assert_eq!(at.copies.take_to_drop(9).len(), 1);
    assert!(at.copies.take_sweep());
    let target = at.scatter.among[0].clone();
    let found = |name, at: &Copies, place| at.found(&object(name), &target, &place);
    let (x, y) = (stored_in("x", &target), stored_in("y", &target));
    assert!(found("x", &at.copies, x.clone()).is_some(), "a sweep drops it");
    assert!(found("y", &at.copies, y).is_none(), "a sweep leaves it");
    assert!(found("y", &at.copies, x).is_some(), "a sweep drops a copy at a former place");
    at.copies.tick(COPY_IDLE_TIME);
    assert_eq!(at.copies.take_to_drop(9).len(), 1);
    assert_eq!(at.copies.summary().current, 0);
}

#[test]
fn no_copies_are_made_for_the_nearest_target_if_that_is_the_home() {
    let mut at = Fixture::new("one s.1,s.0 nearest");
    assert_eq!(at.read(0, "x"), (ReadFrom::Home, vec![]));
    let mut at = Fixture::new("one s.1,s.2 nearest");
    assert_eq!(at.read(0, "x").1.len(), 2);
}
