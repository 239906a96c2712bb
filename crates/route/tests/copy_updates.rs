//! Tests of the state machine for writes that are applied to copies.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::{ObjectId, ObjectStat, Op, Request, TargetName};
use nacre_route::limits::MAX_UNCONFIRMED_UPDATES;
use nacre_route::{
    Choice, Copies, CopySettings, CopyTag, CopyUpdate, MadeCopy, Making, ReadFailure, ReadFrom,
    Scatter, Take, Term, Update, UpdateEnd, UpdateFailure,
};

const NOW: Duration = Duration::ZERO;
const SIZE: u64 = 10;

fn object() -> ObjectId {
    "data/x".parse().unwrap()
}

fn home() -> TargetName {
    "home".parse().unwrap()
}

/// The object that stores the copy at a target.
fn stored_in(target: &TargetName) -> ObjectId {
    format!("routed/{target}/x").parse().unwrap()
}

fn write(offset: u64, length: usize) -> Update {
    let op = Op::Write { offset, data: Bytes::from(vec![1; length]) };
    Update::of(&Request::new(object(), vec![op]).unwrap()).unwrap()
}

fn stat(size: u64, version: u64) -> ObjectStat {
    ObjectStat { size, modified_micros: version, version }
}

/// The copies of a home that orders copies at the first read, and does not serve reads itself.
struct Fixture {
    copies: Copies,
    scatter: Scatter,
}

impl Fixture {
    /// With so many current copies of an object of [`SIZE`] bytes.
    fn new(targets: usize) -> Self {
        let settings = CopySettings { quiet: NOW, reads: 1, rest: Duration::ZERO };
        let mut copies = Copies::new(settings);
        copies.rules_changed(Term(1), |_| true);
        let among = (0..targets).map(|at| format!("t{at}").parse().unwrap()).collect();
        let scatter = Scatter { take: Take::All, choice: Choice::LeastLoaded, among };
        let mut fixture = Self { copies, scatter };
        // It orders only a few copies at a time.
        loop {
            let makings = fixture.order();
            makings.iter().for_each(|making| fixture.made(making, SIZE, 1));
            if makings.is_empty() {
                return fixture;
            }
        }
    }

    fn order(&mut self) -> Vec<Making> {
        self.copies.read(NOW, (&object(), &home()), &self.scatter, 0).make
    }

    fn made(&mut self, making: &Making, size: u64, version: u64) {
        let stored_in = stored_in(&making.target);
        let made = MadeCopy { stat: stat(size, version), applied: 1, stored_in };
        self.copies.made(NOW, making, Ok(made));
    }

    fn began(&mut self, update: &Update) -> Vec<CopyUpdate> {
        self.copies.update_began(&object(), update)
    }

    fn ended(&mut self, update: &Update, size: u64, version: u64) {
        self.copies.update_ended(&object(), update, UpdateEnd::Done(stat(size, version)));
    }

    fn may_end(&self, take: Take) -> bool {
        self.copies.may_end(&object(), take)
    }

    /// The targets with a current copy.
    fn current(&self) -> Vec<&str> {
        let is_current = |target: &&TargetName| self.copies.is_current(&object(), &home(), target);
        self.scatter.among.iter().filter(is_current).map(TargetName::as_str).collect()
    }
}

#[test]
fn with_all_an_update_ends_when_every_copy_has_it_or_has_failed() {
    let mut at = Fixture::new(3);
    assert_eq!(at.current(), ["t0", "t1", "t2"]);
    let update = write(8, 6);
    let copies = at.began(&update);
    assert_eq!(at.current(), [""; 0], "no read goes to a copy while the update is in flight");
    assert!(copies.iter().all(|copy| copy.write.number == 1 && copy.write.size == 14));
    at.copies.update_confirmed(&copies[0]);
    at.copies.update_failed(NOW, &copies[1], UpdateFailure::Target);
    assert!(!at.may_end(Take::All));
    at.copies.update_confirmed(&copies[2]);
    assert!(at.may_end(Take::All));
    assert_eq!(at.current(), [""; 0]);
    at.ended(&update, 14, 2);
    assert_eq!(at.current(), ["t0", "t2"]);
    let summary = at.copies.summary();
    assert_eq!((summary.updates, summary.updates_failed, summary.bytes), (2, 1, 28));
    let dropped = at.copies.take_to_drop(9);
    assert_eq!((dropped.len(), dropped[0].target.as_str()), (1, "t1"));
    let ReadFrom::Copy { state, stat: of_copy, .. } =
        at.copies.read(NOW, (&object(), &home()), &at.scatter, 0).from
    else {
        panic!("a copy serves reads")
    };
    assert_eq!((state.applied, of_copy), (2, stat(14, 2)));
}

#[test]
fn with_quorum_an_update_ends_when_the_home_and_its_copies_are_a_majority() {
    for (targets, needed) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
        let mut at = Fixture::new(targets);
        let update = write(0, 1);
        let copies = at.began(&update);
        for have_it in 0..=targets {
            assert_eq!(at.may_end(Take::Quorum), have_it >= needed, "{have_it} of {targets}");
            copies.get(have_it).into_iter().for_each(|copy| at.copies.update_confirmed(copy));
        }
    }
}

#[test]
fn a_copy_that_has_failed_does_not_count_for_the_majority() {
    let mut at = Fixture::new(3);
    let copies = at.began(&write(0, 1));
    at.copies.update_confirmed(&copies[0]);
    assert!(!at.may_end(Take::Quorum));
    at.copies.update_failed(NOW, &copies[1], UpdateFailure::Lost);
    assert!(at.may_end(Take::Quorum), "two of three");
}

#[test]
fn a_late_copy_rejoins_when_it_has_all_updates() {
    let mut at = Fixture::new(2);
    let first = write(0, 1);
    let copies = at.began(&first);
    at.copies.update_confirmed(&copies[0]);
    at.ended(&first, SIZE, 2);
    assert_eq!(at.current(), ["t0"]);
    let second = write(3, 1);
    let more = at.began(&second);
    assert_eq!([more[0].write.number, more[1].write.number], [2, 2]);
    at.copies.update_confirmed(&copies[1]);
    assert_eq!(at.current(), [""; 0], "an update is in flight");
    at.copies.update_confirmed(&more[0]);
    assert!(at.may_end(Take::All), "a copy that was late before is not awaited");
    at.ended(&second, SIZE, 3);
    assert_eq!(at.current(), ["t0"]);
    at.copies.update_confirmed(&more[1]);
    assert_eq!(at.current(), ["t0", "t1"]);
}

#[test]
fn a_copy_that_lags_far_behind_is_made_anew() {
    let mut at = Fixture::new(1);
    for round in 0..MAX_UNCONFIRMED_UPDATES {
        assert_eq!(at.began(&write(0, 1)).len(), 1);
        at.ended(&write(0, 1), SIZE, 2 + round);
    }
    assert_eq!(at.began(&write(0, 1)), []);
    at.ended(&write(0, 1), SIZE, 99);
    assert_eq!(at.order().len(), 1);
}

#[test]
fn an_update_that_fails_at_home_makes_the_copies_useless() {
    let mut at = Fixture::new(2);
    let update = write(0, 1);
    let copies = at.began(&update);
    at.copies.update_confirmed(&copies[0]);
    at.copies.update_ended(&object(), &update, UpdateEnd::Failed);
    at.copies.update_confirmed(&copies[1]);
    assert_eq!(at.current(), [""; 0]);
    assert_eq!(at.copies.take_to_drop(9).len(), 2);
}

#[test]
fn another_change_during_an_update_makes_the_copies_useless() {
    let mut at = Fixture::new(1);
    let update = write(0, 1);
    let copies = at.began(&update);
    at.copies.change_began(&object());
    at.copies.update_confirmed(&copies[0]);
    at.ended(&update, SIZE, 2);
    at.copies.change_ended(NOW, &object());
    assert_eq!(at.current(), [""; 0]);

    let mut at = Fixture::new(1);
    at.copies.change_began(&object());
    assert_eq!(at.began(&update), [], "the order of the two is not known");
}

#[test]
fn two_updates_at_once_make_the_copies_useless() {
    let mut at = Fixture::new(1);
    let update = write(0, 1);
    let copies = at.began(&update);
    assert_eq!(at.began(&update), []);
    at.copies.update_confirmed(&copies[0]);
    at.ended(&update, SIZE, 2);
    at.ended(&update, SIZE, 3);
    assert_eq!(at.current(), [""; 0]);
}

#[test]
fn a_copy_of_another_size_than_the_object_is_made_anew() {
    let mut at = Fixture::new(1);
    let update = write(0, 1);
    let copies = at.began(&update);
    at.copies.update_confirmed(&copies[0]);
    at.ended(&update, SIZE + 1, 2);
    assert_eq!(at.current(), [""; 0]);
}

#[test]
fn a_copy_in_the_making_becomes_current_only_with_what_it_has_missed() {
    let mut at = Fixture::new(1);
    at.scatter.among.push("late".parse().unwrap());
    let making = at.order().remove(0);
    let update = write(4, 3);
    let copies = at.began(&update);
    assert_eq!(copies.len(), 1, "a copy in the making gets no updates");
    at.copies.update_confirmed(&copies[0]);
    at.ended(&update, SIZE, 2);
    assert_eq!(at.copies.missed_bytes(&making), 3);
    at.made(&making, SIZE, 2);
    assert_eq!(at.current(), ["t0"]);

    let making = at.order().remove(0);
    at.began(&update);
    at.copies.update_ended(&object(), &update, UpdateEnd::OnlyAtHome { version: 3 });
    let missed = at.copies.take_missed(&making);
    assert_eq!((missed.spans, missed.version), (vec![update.span()], Some(3)));
    at.began(&update);
    at.made(&making, SIZE, 4);
    assert!(!at.current().contains(&"late"), "an update is in flight");
}

#[test]
fn a_read_that_an_update_overtakes_does_not_take_the_copy_out() {
    let mut at = Fixture::new(1);
    let ReadFrom::Copy { target, state, .. } =
        at.copies.read(NOW, (&object(), &home()), &at.scatter, 0).from
    else {
        panic!("a copy serves reads")
    };
    let update = write(0, 1);
    let copies = at.began(&update);
    at.copies.update_confirmed(&copies[0]);
    at.ended(&update, SIZE, 2);
    at.copies.read_failed(NOW, &object(), (&target, state), ReadFailure::Lost);
    assert_eq!(at.current(), ["t0"]);
}

#[test]
fn copies_at_targets_that_no_rule_names_any_more_get_no_updates() {
    let mut at = Fixture::new(2);
    at.copies.targets_changed(|_, target| target.as_str() == "t1");
    assert_eq!(at.current(), ["t1"]);
    assert_eq!(at.began(&write(0, 1)).len(), 1);
    assert_eq!(at.copies.take_to_drop(9).len(), 1);
}

const BLOCKS: usize = 4;
type Blocks = [u64; BLOCKS];

/// What happens, one step after the other, with an object of a few blocks. Each block has the number
/// of the change that wrote it. A copy that serves reads has the blocks of the home.
struct Model {
    at: Fixture,
    random: Random,
    home: Blocks,
    version: u64,
    stored: BTreeMap<CopyTag, Blocks>,
    /// Copies in the making, with the number of blocks that they have.
    makings: Vec<(Making, usize)>,
    /// The update in flight, and whether the home has executed it.
    update: Option<(usize, Vec<CopyUpdate>, bool)>,
    /// Updates on their way to copies.
    sent: Vec<(CopyUpdate, usize, u64)>,
    is_changing: bool,
    reads_at_copies: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut at = Fixture::new(0);
        at.scatter.among = ["t0", "t1", "t2"].map(|name| name.parse().unwrap()).to_vec();
        Self {
            at,
            random: Random::seeded(seed),
            home: [0; BLOCKS],
            version: 1,
            stored: BTreeMap::new(),
            makings: vec![],
            update: None,
            sent: vec![],
            is_changing: false,
            reads_at_copies: 0,
        }
    }

    fn stat(&self) -> ObjectStat {
        stat(BLOCKS as u64, self.version)
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..=3 => self.read(),
            4..=5 => self.update(),
            6..=7 => self.answer(),
            8..=10 => self.make(),
            _ if self.random.one_in(12) => self.change(),
            _ => {}
        }
    }

    fn read(&mut self) {
        let random = self.random.next_u64();
        let planned = self.at.copies.read(NOW, (&object(), &home()), &self.at.scatter, random);
        self.makings.extend(planned.make.into_iter().map(|making| (making, 0)));
        if let ReadFrom::Copy { target, state, stat, .. } = planned.from {
            self.at.copies.read_ended(&target);
            self.reads_at_copies += 1;
            assert!(self.update.is_none() && !self.is_changing, "something is in flight");
            assert_eq!(self.stored[&state.tag], self.home);
            assert_eq!(stat, self.stat());
        } else {
            self.at.copies.read_ended(&"home".parse().unwrap());
        }
    }

    /// Begins an update, executes it at the home, or ends it.
    fn update(&mut self) {
        let take = *self.random.pick(&[Take::All, Take::Quorum]).unwrap();
        let Some((block, copies, is_done)) = self.update.take() else {
            let block = self.random.below(BLOCKS as u64) as usize;
            let copies = self.at.began(&write(block as u64, 1));
            self.update = Some((block, copies, false));
            return;
        };
        if is_done && self.at.may_end(take) {
            let end = match copies.is_empty() {
                true => UpdateEnd::OnlyAtHome { version: self.version },
                false => UpdateEnd::Done(self.stat()),
            };
            return self.at.copies.update_ended(&object(), &write(block as u64, 1), end);
        }
        if !is_done && self.random.one_in(30) {
            // It is not known whether the home has executed it.
            if self.random.one_in(2) {
                self.version += 1;
                self.home[block] = self.version;
            }
            let end = UpdateEnd::Failed;
            return self.at.copies.update_ended(&object(), &write(block as u64, 1), end);
        }
        if !is_done {
            self.version += 1;
            self.home[block] = self.version;
            self.sent.extend(copies.iter().cloned().map(|copy| (copy, block, self.version)));
        }
        self.update = Some((block, copies, true));
    }

    /// A copy answers its first update, or does not.
    fn answer(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let any = self.random.below(self.sent.len() as u64) as usize;
        let tag = self.sent[any].0.write.tag;
        let first = self.sent.iter().position(|(copy, ..)| copy.write.tag == tag).unwrap();
        let (copy, block, value) = self.sent.remove(first);
        if self.random.one_in(10) {
            self.sent.retain(|(other, ..)| other.write.tag != tag);
            let why = *self.random.pick(&[UpdateFailure::Lost, UpdateFailure::Target]).unwrap();
            return self.at.copies.update_failed(NOW, &copy, why);
        }
        self.stored.get_mut(&tag).unwrap()[block] = value;
        self.at.copies.update_confirmed(&copy);
    }

    /// Copies a block, or ends a copy.
    fn make(&mut self) {
        if self.makings.is_empty() {
            return;
        }
        let any = self.random.below(self.makings.len() as u64) as usize;
        let (making, done) = &mut self.makings[any];
        let stored = self.stored.entry(making.tag).or_default();
        if *done < BLOCKS {
            stored[*done] = self.home[*done];
            *done += 1;
            return;
        }
        let making = making.clone();
        for span in self.at.copies.take_missed(&making).spans {
            let blocks = span.start() as usize..span.end() as usize;
            stored[blocks.clone()].copy_from_slice(&self.home[blocks]);
        }
        self.makings.remove(any);
        let stored_in = stored_in(&making.target);
        let made = MadeCopy { stat: self.stat(), applied: BLOCKS as u64, stored_in };
        self.at.copies.made(NOW, &making, Ok(made));
    }

    /// Begins or ends a change of another kind, or one that the state machine hears only begin.
    fn change(&mut self) {
        if !self.is_changing && self.random.one_in(3) {
            self.at.copies.leave_read_set(&object());
            (self.version, self.home) = (self.version + 1, [self.version + 1; BLOCKS]);
            return;
        }
        match self.is_changing {
            false => self.at.copies.change_began(&object()),
            true => {
                (self.version, self.home) = (self.version + 1, [self.version + 1; BLOCKS]);
                self.at.copies.change_ended(NOW, &object());
            }
        }
        self.is_changing = !self.is_changing;
    }
}

#[test]
fn whatever_happens_a_copy_that_serves_reads_has_the_bytes_of_the_home() {
    let (mut reads_at_copies, mut updates) = (0, 0);
    for seed in 0..300 {
        let mut model = Model::new(seed);
        for _ in 0..2000 {
            model.step();
        }
        updates += model.at.copies.summary().updates;
        reads_at_copies += model.reads_at_copies;
    }
    assert!(reads_at_copies > 10_000, "{reads_at_copies} reads at copies");
    assert!(updates > 5_000, "{updates} updates of copies");
}
