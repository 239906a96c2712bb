//! Committers, nodes and the store on one network. A seed decides everything.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::histories::{MapModel, check};
use nacre_conformance::network::{Delivery, Leg, Network};
use nacre_object::ErrorKind;

use super::committer::{Committer, History};
use super::node::{Node, Signal, is_bad};
use super::store::Store;
use super::{Answer, Ask, Asks, COMMITTERS, NODES, Party, Sabotage};
use crate::maps::MapEvent;
use crate::programs::{
    ProgramRecord, StatusReport, report_order_key, status_key, status_key_prefix,
};

const ROUNDS: usize = 12;
/// After this many steps, a world in which nothing fails any more must have come to rest.
const MAX_STEPS: usize = 100_000;
/// Steps during which things go wrong.
const STORM_STEPS: usize = 2_000;
/// A misfortune strikes once in so many steps of the storm.
const MISFORTUNE_ONE_IN: u64 = 40;
/// A watch breaks once in this many times that it should report something.
const CUT_ONE_IN: u64 = 8;
/// Once in this many times the changes of the map cannot be read.
const UNREADABLE_ONE_IN: u64 = 8;

/// Whether to keep every message, which is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracing {
    Off,
    On,
}

/// What came of a run.
pub(super) struct Outcome {
    pub(super) trace: Vec<String>,
    pub(super) chronicle: Chronicle,
}

pub(super) struct World {
    random: Random,
    network: Network<Party, Ask, Answer>,
    store: Store,
    nodes: Vec<Node>,
    committers: Vec<Committer>,
    histories: BTreeMap<&'static str, History>,
    posted: u64,
    has_looked_again: bool,
    tracing: Tracing,
    sabotage: Option<Sabotage>,
    outcome: Outcome,
}

impl World {
    /// Runs a world to its end and judges it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn run(
        seed: u64,
        tracing: Tracing,
        sabotage: Option<Sabotage>,
    ) -> Result<Outcome, String> {
        let mut world = Self {
            random: Random::seeded(seed),
            network: Network::default(),
            store: Store::new(sabotage),
            nodes: (0..NODES).map(|n| Node::new(n, sabotage)).collect(),
            committers: (0..COMMITTERS).map(|n| Committer::new(n, ROUNDS)).collect(),
            histories: BTreeMap::from(["data", "programs"].map(|map| (map, History::default()))),
            posted: 0,
            has_looked_again: false,
            tracing,
            sabotage,
            outcome: Outcome { trace: vec![], chronicle: Chronicle::default() },
        };
        for n in 0..COMMITTERS {
            let asks = world.committers[n].start(&mut world.random, &world.histories);
            world.send_all(Party::Committer(n), asks);
        }
        for n in 0..NODES {
            world.advance(n)?;
        }
        for step in 0..MAX_STEPS {
            world.misfortune(step)?;
            if !world.step()? && !world.look_again()? {
                return world.judge();
            }
        }
        Err("the world does not come to rest".into())
    }

    /// Makes something fail now and then. In the end everything works again.
    fn misfortune(&mut self, step: usize) -> Result<(), String> {
        self.network.is_stormy = step < STORM_STEPS;
        if step == STORM_STEPS {
            self.network.resume_all();
        }
        if step >= STORM_STEPS || !self.random.one_in(MISFORTUNE_ONE_IN) {
            return Ok(());
        }
        let n = self.random.below(NODES as u64) as usize;
        match self.random.below(8) {
            0..2 => {
                self.outcome.chronicle.note("node crashed");
                self.nodes[n].restart();
                self.advance(n)?;
            }
            2..6 => self.pause_somebody(n),
            _ => {
                let (by, is_forward) = (self.random.below(3000) as i64, self.random.one_in(2));
                let by = if is_forward { by } else { -by };
                self.outcome.chronicle.note(if is_forward {
                    "clock forward"
                } else {
                    "clock back"
                });
                self.network.jump_clock(Party::Node(n), by);
                self.nodes[n].clock_error += by;
                self.store.clock_micros = self.random.below(1 << 50);
                self.advance(n)?;
            }
        }
        Ok(())
    }

    fn pause_somebody(&mut self, n: usize) {
        let (party, what) = match self.random.below(6) {
            0 => (Party::Store, "store paused"),
            1 => (Party::Committer(n), "committer paused"),
            _ => (Party::Node(n), "node paused"),
        };
        self.outcome.chronicle.note(what);
        // Long enough that the others have gone on when this node continues.
        let time = 20 + self.random.below(900);
        self.network.pause(party, time);
    }

    /// Delivers one message; returns whether there was one.
    fn step(&mut self) -> Result<bool, String> {
        let told = &mut self.outcome.chronicle;
        let Some(delivery) = self.network.next(&mut |what| told.note(what)) else {
            return Ok(false);
        };
        if self.tracing == Tracing::On {
            self.outcome.trace.push(format!("{} {delivery:?}", self.network.now()));
        }
        match (&delivery.leg, delivery.to, &delivery.ask) {
            (Leg::Question, Party::Node(n), Ask::Stir(watch, news)) => {
                self.nodes[n].hear_of_watch(*watch, Signal::Stir(news.clone()));
                self.advance(n)?;
            }
            (Leg::Question, Party::Node(n), Ask::Cut(watch)) => {
                self.nodes[n].hear_of_watch(*watch, Signal::Over);
                self.advance(n)?;
            }
            (Leg::Question, ..) => self.serve(delivery),
            _ => self.hear(delivery)?,
        }
        Ok(true)
    }

    /// Makes every node read the map without a notification, as real nodes do after a long silence.
    /// Does this only once in a run. Returns whether it did so.
    fn look_again(&mut self) -> Result<bool, String> {
        if self.has_looked_again || self.sabotage == Some(Sabotage::NeverLooksAgain) {
            return Ok(false);
        }
        self.has_looked_again = true;
        for n in 0..NODES {
            self.nodes[n].look_again();
            self.advance(n)?;
        }
        Ok(true)
    }

    fn serve(&mut self, question: Delivery<Party, Ask, Answer>) {
        let (answer, is_news) = match (&question.ask, question.from) {
            (Ask::Call { map, method, input }, _) => self.store.call(map, method, input.clone()),
            (Ask::Watch(number), Party::Node(n)) => {
                self.store.watches.insert((n, *number));
                (Ok(Bytes::new()), false)
            }
            _ => (Ok(Bytes::new()), false),
        };
        let told = &mut self.outcome.chronicle;
        if let (Party::Node(_), Err(ErrorKind::Conflict)) = (question.from, &answer) {
            told.note("report refused: a later one was first");
        }
        self.network.reply(&mut self.random, &mut |what| told.note(what), question, answer);
        if is_news {
            self.tell_watchers();
        }
    }

    /// Notifies every watcher, or loses its notification: either the watch breaks too, or nobody
    /// notices.
    fn tell_watchers(&mut self) {
        let is_unreadable = self.network.is_stormy && self.random.one_in(UNREADABLE_ONE_IN);
        let news = self.store.news(is_unreadable);
        for (n, number) in self.store.watches.clone() {
            self.posted += 1;
            let is_lost = self.network.is_stormy && self.random.one_in(CUT_ONE_IN);
            if is_lost && self.random.one_in(2) {
                self.outcome.chronicle.note("news lost unsaid");
                continue;
            }
            if is_lost {
                self.outcome.chronicle.note("watch cut");
                self.store.watches.remove(&(n, number));
            }
            let notification =
                if is_lost { Ask::Cut(number) } else { Ask::Stir(number, news.clone()) };
            let from = (Party::Store, self.posted);
            self.network.post(&mut self.random, from, (Party::Node(n), notification));
        }
    }

    fn hear(&mut self, delivery: Delivery<Party, Ask, Answer>) -> Result<(), String> {
        let answer = match delivery.leg {
            Leg::Answer(answer) => Some(answer),
            _ => None,
        };
        let told = &mut self.outcome.chronicle;
        match delivery.from {
            Party::Node(n) => {
                let now = self.network.now();
                let world = (&mut self.random, self.network.is_stormy);
                self.nodes[n].hear(delivery.id, &delivery.ask, answer, now, world, told);
                self.advance(n)
            }
            Party::Committer(n) => {
                let random = &mut self.random;
                let asks = self.committers[n].hear(answer, random, &self.histories, told);
                self.send_all(delivery.from, asks);
                Ok(())
            }
            Party::Store => Ok(()),
        }
    }

    /// Lets a node do what it can, and checks what its follower delivered.
    fn advance(&mut self, n: usize) -> Result<(), String> {
        let before = self.nodes[n].known.epoch;
        let turn = self.nodes[n].advance(self.network.now(), &mut self.outcome.chronicle);
        let mut told = before;
        for event in &turn.told {
            if matches!(event, MapEvent::Epoch(_)) && event.epoch() != told + 1 {
                return Err(format!("n{n} was told epoch {} after {told}", event.epoch()));
            }
            told = event.epoch();
        }
        if !turn.told.is_empty() && self.store.programs.get(&told) != Some(&self.nodes[n].known) {
            return Err(format!("n{n} was told of epoch {told} what it was not"));
        }
        if let Some((id, after)) = turn.wake {
            self.network.wake(Party::Node(n), id, Ask::Wake, after);
        }
        self.send_all(Party::Node(n), turn.asks);
        Ok(())
    }

    fn send_all(&mut self, from: Party, asks: Asks) {
        for (id, ask) in asks {
            let told = &mut self.outcome.chronicle;
            let note = &mut |what| told.note(what);
            self.network.send(&mut self.random, note, (from, id), (Party::Store, ask));
        }
    }

    /// Judges the world when all is quiet.
    fn judge(mut self) -> Result<Outcome, String> {
        for (map, history) in &self.histories {
            check::<MapModel>(&history.operations()).map_err(|text| format!("{map}: {text}"))?;
        }
        let programs = self.store.whole("programs");
        let reports = self.store.whole("program-status");
        for node in &self.nodes {
            let name = &node.name;
            let table = node.table();
            if (table.known_epoch, &node.known) != (programs.epoch, &programs) {
                return Err(format!(
                    "{name} knows epoch {} of {}",
                    table.known_epoch, programs.epoch
                ));
            }
            let mut expected = BTreeMap::new();
            for (key, value) in &programs.entries {
                let id = key.parse().expect("a program");
                let active = ProgramRecord::parse(key, value, programs.epoch);
                let active = active.expect("a record").active();
                let state = table.state(&id);
                let failed = active.as_ref().is_some_and(is_bad);
                let wanted = active.map(|active| active.version);
                let is_right = if failed { state.error.is_some() } else { state.live == wanted };
                if !is_right || !state.settled || state.live != node.live.get(&id).copied() {
                    return Err(format!("{name} has {state:?} of {key}, active is {wanted:?}"));
                }
                if state.live.is_some() || failed {
                    let failed = failed.then_some(wanted).flatten();
                    expected.insert(status_key(name, &id), (node.incarnation, state.live, failed));
                }
            }
            let prefix = status_key_prefix(name);
            let order = report_order_key(name);
            let entries = reports.entries.iter().filter(|(key, _)| **key != order);
            let own = entries.filter(|(key, _)| key.starts_with(&prefix));
            let reported: BTreeMap<_, _> = own
                .map(|(key, value)| {
                    let report = StatusReport::parse(key, value).expect("a report");
                    let failed = report.failed.map(|failed| failed.version);
                    (key.clone(), (report.incarnation, report.live, failed))
                })
                .collect();
            if reported != expected {
                return Err(format!("{name} reports {reported:?}, not {expected:?}"));
            }
        }
        Ok(self.outcome)
    }
}
