//! A simulated node. It does what the real subscriber and its follower of the map `programs` do,
//! one message at a time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_object::{Error, NodeName};

use super::super::core::{Command, Core, News, Outcome, Step as CoreStep};
use super::super::live_table::LiveTable;
use super::super::news::news_of;
use super::{Answer, Ask, Asks, Sabotage};
use crate::catch_up::{CatchUp, Step};
use crate::maps::{MapEvent, MapState, testing};
use crate::programs::{Active, ProgramId, programs_map, status_key_prefix};

/// How many epochs a map's history keeps. The number is small, so that a node that was down misses
/// epochs.
const KEPT_EPOCHS: u64 = 6;

/// One version in this many is bad: no node can make it live.
const BAD_ONE_IN: u64 = 4;

pub(super) struct Node {
    pub(super) name: NodeName,
    pub(super) incarnation: u64,
    next_id: u64,
    /// The first message id since the node's last start. An answer with a smaller id belongs to a
    /// request from before the node's crash.
    first_id_of_this_life: u64,
    /// How wrong its clock is.
    pub(super) clock_error: i64,
    follower: CatchUp<MapEvent>,
    watch: Watch,
    watches: u64,
    /// Notifications that the node has not taken yet.
    signals: VecDeque<(u64, Signal)>,
    /// What the follower waits for.
    following: Option<u64>,
    core: Core,
    /// What the worker waits for.
    working: Option<(u64, Command)>,
    news: VecDeque<News>,
    waking: Option<u64>,
    /// The map as the node knows it.
    pub(super) known: MapState,
    /// What it runs.
    pub(super) live: BTreeMap<ProgramId, u64>,
    sabotage: Option<Sabotage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Off,
    Asked(u64),
    On(u64),
}

/// What a watch tells.
pub(super) enum Signal {
    /// There was a change: of what, if it says so.
    Stir(Bytes),
    /// It is over.
    Over,
}

/// What the world must do for a node.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) asks: Asks,
    /// Wake it after so long, as its clock goes.
    pub(super) wake: Option<(u64, u64)>,
    /// Told of the map `programs`, in order.
    pub(super) told: Vec<MapEvent>,
}

impl Node {
    pub(super) fn new(n: usize, sabotage: Option<Sabotage>) -> Self {
        let name = NodeName::new(format!("n{n}")).expect("a literal");
        Self {
            core: Core::new(name.clone(), 1, n as u64),
            name,
            incarnation: 1,
            next_id: 0,
            first_id_of_this_life: 0,
            clock_error: 0,
            follower: CatchUp::from_whole(),
            watch: Watch::Off,
            watches: 0,
            signals: VecDeque::new(),
            following: None,
            working: None,
            news: VecDeque::new(),
            waking: None,
            known: MapState::empty(programs_map()),
            live: BTreeMap::new(),
            sabotage,
        }
    }

    /// It dies and comes back with nothing in memory.
    pub(super) fn restart(&mut self) {
        self.first_id_of_this_life = self.next_id;
        self.follower = CatchUp::from_whole();
        (self.watch, self.following, self.working, self.waking) = (Watch::Off, None, None, None);
        self.news.clear();
        self.signals.clear();
        self.known = MapState::empty(programs_map());
        self.live.clear();
        if self.sabotage != Some(Sabotage::FormerLifeBelieved) {
            self.incarnation += 1;
            self.core = Core::new(self.name.clone(), self.incarnation, self.incarnation);
        }
    }

    pub(super) fn table(&self) -> LiveTable {
        self.core.table()
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn clock(&self, now: u64) -> Duration {
        Duration::from_millis(now.saturating_add_signed(self.clock_error))
    }

    /// It has heard nothing for long.
    pub(super) fn look_again(&mut self) {
        self.follower.stirred();
    }

    /// Queues a notification of a watch until the follower takes it, as the stream of a real watch
    /// does.
    pub(super) fn hear_of_watch(&mut self, watch: u64, signal: Signal) {
        self.signals.push_back((watch, signal));
    }

    /// Gives the watch's next signal to the follower. Returns whether there was one.
    fn listen(&mut self, told: &mut Chronicle) -> bool {
        while let Some((watch, signal)) = self.signals.pop_front() {
            if self.watch == Watch::On(watch) {
                match signal {
                    Signal::Stir(news) => self.stirred(&news, told),
                    Signal::Over => {
                        self.follower.stirred();
                        self.watch = Watch::Off;
                    }
                }
                return true;
            }
        }
        false
    }

    fn stirred(&mut self, news: &Bytes, told: &mut Chronicle) {
        let Some(mut page) = testing::told(news, KEPT_EPOCHS) else {
            told.note("told only that it changed");
            return self.follower.stirred();
        };
        let known = self.known.epoch;
        let follows = page.items.first().is_some_and(|(first, _)| *first == known + 1);
        told.note(if follows { "told what changed" } else { "told what does not follow" });
        if self.sabotage == Some(Sabotage::ToldTakenForNext) {
            let numbers = known + 1..;
            page.items.iter_mut().zip(numbers).for_each(|(item, number)| item.0 = number);
            page.last = known + page.items.len() as u64;
        }
        self.follower.told(page);
    }

    /// Takes an answer.
    pub(super) fn hear(
        &mut self,
        id: u64,
        ask: &Ask,
        answer: Option<Answer>,
        now: u64,
        world: (&mut Random, bool),
        told: &mut Chronicle,
    ) {
        if id < self.first_id_of_this_life {
            return;
        }
        if self.waking == Some(id) {
            self.waking = None;
        } else if self.following == Some(id) {
            self.following = None;
            self.hear_of_follower(ask, answer);
        } else if self.working.as_ref().is_some_and(|(working, _)| *working == id) {
            let (_, command) = self.working.take().expect("it was looked at");
            self.hear_of_worker(command, answer, now, world, told);
        }
    }

    fn hear_of_follower(&mut self, ask: &Ask, answer: Option<Answer>) {
        let output = answer.and_then(Result::ok);
        match (ask, output) {
            (Ask::Watch(number), Some(_)) if self.watch == Watch::Asked(*number) => {
                self.watch = Watch::On(*number);
                self.follower.stirred();
            }
            (Ask::Watch(_), _) => self.watch = Watch::Off,
            (Ask::Call { method: "history", .. }, Some(output)) => {
                let mut page = testing::page(output, KEPT_EPOCHS);
                if self.sabotage == Some(Sabotage::GapUnsaid)
                    && let Some((first, _)) = page.items.first()
                {
                    let gap = first - 1 - self.known.epoch.min(first - 1);
                    page.items.iter_mut().for_each(|(number, _)| *number -= gap);
                    page.last -= gap;
                }
                self.follower.page(page);
            }
            (Ask::Call { method: "get", .. }, Some(output)) => {
                let whole = testing::whole("programs", output);
                self.follower.whole(whole.epoch, MapEvent::Whole(whole));
            }
            // No answer: the next step asks again.
            _ => {}
        }
    }

    fn hear_of_worker(
        &mut self,
        command: Command,
        answer: Option<Answer>,
        now: u64,
        (random, is_stormy): (&mut Random, bool),
        told: &mut Chronicle,
    ) {
        let clock = self.clock(now);
        let output = answer.and_then(Result::ok);
        match (command, output) {
            (Command::ReadReports, Some(output)) => {
                let prefix = status_key_prefix(&self.name);
                let entries = testing::whole("program-status", output).entries.into_iter();
                let own = entries.filter(|(key, _)| key.starts_with(&prefix)).collect();
                self.core.reports_read(own);
            }
            (Command::WriteReports { changes, .. }, Some(_)) => self.core.reports_written(changes),
            (Command::ReadReports | Command::WriteReports { .. }, None) => {
                told.note("report in doubt was read again");
                self.core.reports_failed(clock);
            }
            (command, None) => {
                let away = Outcome::Later(Error::unavailable("nobody answers"));
                self.core.done(&command, away, clock);
            }
            (command, Some(_)) => {
                let outcome = if is_stormy && random.one_in(6) {
                    told.note("program failed for now");
                    Outcome::Later(Error::unavailable("it was not the time"))
                } else {
                    self.change_program(&command, told)
                };
                self.core.done(&command, outcome, clock);
            }
        }
    }

    fn change_program(&mut self, command: &Command, told: &mut Chronicle) -> Outcome {
        match command {
            Command::Install { active, .. } if is_bad(active) => {
                told.note("program failed for good");
                return Outcome::Failed(Error::invalid("it is bad"));
            }
            Command::Install { program, active, .. } => {
                told.note("program made live");
                self.live.insert(program.clone(), active.version);
            }
            Command::Uninstall { program, .. } => {
                told.note("program dropped");
                self.live.remove(program);
            }
            Command::ReadReports | Command::WriteReports { .. } => {}
        }
        Outcome::Done
    }

    /// Does whatever it can do now.
    pub(super) fn advance(&mut self, now: u64, told: &mut Chronicle) -> Turn {
        let mut turn = Turn::default();
        while self.following.is_none() && self.follow(&mut turn, told) {}
        if self.working.is_none() {
            self.news.drain(..).for_each(|news| self.core.news(news));
            self.work(now, &mut turn);
        }
        turn
    }

    /// A step of the follower; returns whether there may be another.
    fn follow(&mut self, turn: &mut Turn, told: &mut Chronicle) -> bool {
        if self.watch == Watch::Off {
            self.watches += 1;
            self.watch = Watch::Asked(self.watches);
            self.ask_to_follow(Ask::Watch(self.watches), turn);
            return false;
        }
        match self.follower.step() {
            Step::Deliver(event) => {
                let is_whole = matches!(event, MapEvent::Whole(_));
                told.note(if is_whole { "whole told instead of epochs" } else { "epoch told" });
                self.known.apply(&event);
                turn.told.push(event.clone());
                self.news.push_back(news_of(event).0);
                return true;
            }
            Step::ReadAfter(number) => {
                self.ask_to_follow(call("programs", "history", testing::history(number)), turn);
            }
            Step::ReadWhole => self.ask_to_follow(call("programs", "get", testing::get()), turn),
            Step::Wait => return self.listen(told),
        }
        false
    }

    fn ask_to_follow(&mut self, ask: Ask, turn: &mut Turn) {
        let id = self.id();
        self.following = Some(id);
        turn.asks.push((id, ask));
    }

    fn work(&mut self, now: u64, turn: &mut Turn) {
        let clock = self.clock(now);
        match self.core.step(clock) {
            CoreStep::Do(command) => {
                let id = self.id();
                let ask = match &command {
                    Command::ReadReports => call("program-status", "get", testing::get()),
                    Command::WriteReports { guard, changes } => {
                        let guard = guard.clone();
                        let input = testing::guarded_commit("program-status", guard, changes, id);
                        call("program-status", "commit", input)
                    }
                    Command::Install { .. } | Command::Uninstall { .. } => Ask::Fetch,
                };
                self.working = Some((id, command));
                turn.asks.push((id, ask));
            }
            CoreStep::WaitUntil(time) if self.waking.is_none() => {
                let id = self.id();
                self.waking = Some(id);
                let wait = time.saturating_sub(clock).as_millis() as u64 + 1;
                turn.wake = Some((id, wait));
            }
            CoreStep::WaitUntil(_) | CoreStep::Wait => {}
        }
    }
}

pub(super) fn is_bad(active: &Active) -> bool {
    active.version.is_multiple_of(BAD_ONE_IN)
}

fn call(map: &'static str, method: &'static str, input: Bytes) -> Ask {
    Ask::Call { map, method, input }
}
