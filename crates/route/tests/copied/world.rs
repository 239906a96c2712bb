//! Clients, a switch with its home, and targets with copies, on one network.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::network::{Delivery, Leg, Network};
use nacre_object::ObjectId;
use nacre_route::{Choice, CopyState, CopyToDrop, ReadFailure, ReadFrom, Scatter, Take, Term};

use super::copy_node::CopyNode;
use super::home::Home;
use super::process::{Asked, MakingCopy, Process, Waiting, home, object_id, process};
use super::updating::Turn;
use super::{
    Answer, Ask, AtHome, BLOCKS, CLIENTS, COPY_NODES, Change, HomeAnswer, OBJECTS, Party, Sabotage,
    copy_node_of, target,
};

/// The most steps of a run. A run that has not finished by then has failed.
const MAX_STEPS: usize = 100_000;
/// The number of steps in which faults happen.
const STORM_STEPS: usize = 8_000;
/// In one of this many steps of the storm something breaks.
const MISFORTUNE_ONE_IN: u64 = 60;
/// The same, if copies stay current under writes. So copies live long enough to get many updates.
const UPDATED_MISFORTUNE_ONE_IN: u64 = 400;
/// The interval at which each party checks what is due.
const WAKE_EVERY: u64 = 6;
/// One of this many operations of clients is a change.
const CHANGE_ONE_IN: u64 = 20;
/// The same, if copies stay current under writes.
const UPDATE_ONE_IN: u64 = 8;
/// Operations that each client completes after the storm.
const CALM_OPERATIONS: u64 = 20;

pub type Question = Delivery<Party, Ask, Answer>;

/// An operation of a client.
struct Operation {
    object: usize,
    /// The newest version that a client knew when it began.
    floor: u64,
}

#[derive(Default)]
struct Client {
    operation: Option<(u64, Operation)>,
    done: u64,
}

pub struct World {
    pub(super) random: Random,
    network: Network<Party, Ask, Answer>,
    clients: Vec<Client>,
    pub(super) process: Process,
    home: Home,
    copy_nodes: Vec<CopyNode>,
    /// The newest version of each object that a client has written or read.
    newest_seen: Vec<u64>,
    /// Operations that the switch has heard of: sessions deliver each once.
    seen: BTreeSet<(Party, u64)>,
    next_id: u64,
    /// Whether the home crashes far more often than in other runs.
    is_short_lived: bool,
    /// Whether writes are applied to copies, as rules with `all` or `quorum` want it.
    takes_updates: bool,
    /// One of so many operations of clients is a change.
    change_one_in: u64,
    misfortune_one_in: u64,
    pub(super) sabotage: Option<Sabotage>,
    pub(super) told: Chronicle,
    violation: Option<String>,
}

impl World {
    /// The error of a world that does not come to an end.
    pub const RESTLESS: &str = "the world does not come to rest";

    /// Runs a world to its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn run(seed: u64, sabotage: Option<Sabotage>) -> Result<Chronicle, String> {
        let takes_updates = !seed.is_multiple_of(3);
        let mut world = Self {
            random: Random::seeded(seed),
            network: Network::default(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            process: process(1),
            home: Home::new(),
            copy_nodes: (0..COPY_NODES).map(|_| CopyNode::default()).collect(),
            newest_seen: vec![0; OBJECTS],
            seen: BTreeSet::new(),
            next_id: 0,
            is_short_lived: seed % 4 == 3,
            takes_updates,
            change_one_in: if takes_updates { UPDATE_ONE_IN } else { CHANGE_ONE_IN },
            misfortune_one_in: match takes_updates {
                true => UPDATED_MISFORTUNE_ONE_IN,
                false => MISFORTUNE_ONE_IN,
            },
            sabotage,
            told: Chronicle::default(),
            violation: None,
        };
        for client in 0..CLIENTS {
            world.wake(Party::Client(client));
        }
        world.wake(Party::Switch);
        world.go()?;
        Ok(world.told)
    }

    fn go(&mut self) -> Result<(), String> {
        let mut goals = vec![u64::MAX; CLIENTS];
        for step in 0..MAX_STEPS {
            if step == STORM_STEPS {
                self.network.resume_all();
                goals = self.clients.iter().map(|client| client.done + CALM_OPERATIONS).collect();
            }
            self.network.is_stormy = step < STORM_STEPS;
            if step < STORM_STEPS && self.random.one_in(self.misfortune_one_in) {
                self.misfortune();
            }
            self.step();
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if self.clients.iter().zip(&goals).all(|(client, goal)| client.done >= *goal) {
                return Ok(());
            }
        }
        Err(Self::RESTLESS.to_owned())
    }

    fn misfortune(&mut self) {
        match self.random.below(9) {
            0..=5 if self.is_short_lived => self.crash(),
            0 => self.crash(),
            1..=3 => {
                self.told.note("target lost its copies");
                let copy_node = self.random.below(COPY_NODES as u64) as usize;
                self.copy_nodes[copy_node].lose_all();
            }
            4 => {
                self.told.note("rules changed");
                let (kept, term) = (self.random.below(OBJECTS as u64), self.process.number);
                let is_kept = |object: &ObjectId| *object == object_id(kept as usize);
                self.process.copies.rules_changed(Term(term), is_kept);
            }
            _ => {
                self.told.note("somebody paused");
                let parties: Vec<_> = (0..COPY_NODES)
                    .map(Party::CopyNode)
                    .chain((0..CLIENTS).map(Party::Client))
                    .chain([Party::Home])
                    .collect();
                let party = *self.random.pick(&parties).unwrap();
                let time = 20 + self.random.below(400);
                self.network.pause(party, time);
            }
        }
    }

    fn crash(&mut self) {
        self.told.note("home crashed");
        self.process = process(self.process.number + 1);
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_millis(self.network.now())
    }

    pub(super) fn home_size(&mut self, object: usize) -> u64 {
        self.home.serve(AtHome::Stat(object)).stat.size
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn wake(&mut self, party: Party) {
        let id = self.id();
        let after = 1 + self.random.below(WAKE_EVERY);
        self.network.wake(party, id, Ask::Wake, after);
    }

    pub(super) fn send(&mut self, from: Party, to: Party, ask: Ask) -> u64 {
        let id = self.id();
        let told = &mut self.told;
        self.network.send(&mut self.random, &mut |what| told.note(what), (from, id), (to, ask));
        id
    }

    fn post(&mut self, from: Party, to: Party, ask: Ask) {
        let id = self.id();
        self.network.post(&mut self.random, (from, id), (to, ask));
    }

    pub(super) fn reply(&mut self, question: Question, answer: Answer) {
        let told = &mut self.told;
        self.network.reply(&mut self.random, &mut |what| told.note(what), question, answer);
    }

    fn step(&mut self) {
        let told = &mut self.told;
        let Some(delivery) = self.network.next(&mut |what| told.note(what)) else { return };
        match (&delivery.ask, delivery.leg.clone()) {
            (Ask::Wake, _) => self.woken(delivery.from),
            (_, Leg::Question) => self.serve(delivery),
            (_, Leg::Answer(answer)) => self.hear(delivery, answer),
            (_, Leg::Timeout) => self.hear(delivery, Answer::Silence),
        }
    }

    fn woken(&mut self, party: Party) {
        self.wake(party);
        let Party::Client(at) = party else { return self.drop_copies() };
        if self.clients[at].operation.is_some() {
            return;
        }
        let object = self.random.below(OBJECTS as u64) as usize;
        let ask = match self.random.one_in(self.change_one_in) {
            true => Ask::Change { object, change: self.change() },
            false => Ask::Read { object },
        };
        let operation = Operation { object, floor: self.newest_seen[object] };
        let id = self.send(party, Party::Switch, ask);
        self.clients[at].operation = Some((id, operation));
    }

    fn drop_copies(&mut self) {
        for CopyToDrop { object, target, tag, .. } in self.process.copies.take_to_drop(1) {
            self.told.note("copy dropped");
            let at = (0..OBJECTS).find(|at| object_id(*at) == object).expect("it is one of them");
            self.send(
                Party::Switch,
                Party::CopyNode(copy_node_of(&target)),
                Ask::Drop { object: at, tag },
            );
        }
    }

    fn change(&mut self) -> Change {
        if self.random.one_in(8) {
            return Change::Truncate { blocks: self.random.below(BLOCKS + 1) };
        }
        let block = self.random.below(BLOCKS);
        let count = 1 + self.random.below(BLOCKS - block);
        if self.random.one_in(10) {
            return Change::Zero { block, count };
        }
        Change::Write { block, count, value: self.id() }
    }

    fn serve(&mut self, question: Question) {
        match (&question.ask, question.to) {
            (Ask::Read { object }, _) => self.read(*object, question),
            (Ask::Change { object, change }, _)
                if self.seen.insert((question.from, question.id)) =>
            {
                self.begin_change(*object, *change, question);
            }
            (Ask::ToHome { process, number, what }, _) if *process == self.process.number => {
                let answer = self.home.serve(*what);
                let (process, number) = (*process, *number);
                self.post(Party::Home, Party::Switch, Ask::FromHome { process, number, answer });
            }
            (Ask::FromHome { process, number, answer }, _) => {
                if *process == self.process.number
                    && let Some(waiting) = self.process.waiting.remove(number)
                {
                    self.home_answered(waiting, answer.clone());
                }
            }
            (Ask::Piece(write), Party::CopyNode(at)) => {
                let told = &mut self.told;
                let copy_node = &mut self.copy_nodes[at];
                let answer = copy_node.write(write, self.sabotage, &mut |what| told.note(what));
                self.reply(question, answer);
            }
            (Ask::Drop { object, tag }, Party::CopyNode(at)) => {
                self.copy_nodes[at].drop_copy(&object_id(*object), *tag);
            }
            (Ask::ReadCopy { object, state }, Party::CopyNode(at)) => {
                let answer = self.copy_nodes[at].read(&object_id(*object), *state, self.sabotage);
                self.reply(question, answer);
            }
            _ => {}
        }
    }

    pub(super) fn ask_home(&mut self, waiting: Waiting, what: AtHome) {
        let number = self.id();
        self.process.waiting.insert(number, waiting);
        let process = self.process.number;
        self.post(Party::Switch, Party::Home, Ask::ToHome { process, number, what });
    }

    fn read(&mut self, object: usize, question: Question) {
        let among = ["s.0", "s.1", "s.2"].map(|name| name.parse().unwrap()).to_vec();
        let choice = *self.random.pick(&[Choice::Random, Choice::LeastLoaded]).unwrap();
        let scatter = Scatter { take: Take::One, choice, among };
        let (now, random) = (self.now(), self.random.next_u64());
        let at = (&object_id(object), &home());
        let planned = self.process.copies.read(now, at, &scatter, random);
        for making in planned.make {
            let number = self.id() as usize;
            self.process.makings.insert(number, MakingCopy::new(making, object));
            self.take_turn(object, Turn::Begin(number));
        }
        match planned.from {
            ReadFrom::Home => self.ask_home(Waiting::Read(question), AtHome::Read(object)),
            ReadFrom::Copy { target, state, .. } => {
                let copy_node = copy_node_of(&target);
                let to = Party::CopyNode(copy_node);
                let id = self.send(Party::Switch, to, Ask::ReadCopy { object, state });
                self.process.asked.insert(id, Asked::Read { question, copy_node, state });
            }
        }
    }

    fn begin_change(&mut self, object: usize, change: Change, question: Question) {
        let is_update = !matches!(change, Change::Truncate { .. });
        if is_update && self.takes_updates {
            return self.take_turn(object, Turn::Update(Box::new(question), change));
        }
        if self.process.updating.is_in_flight(object) {
            self.told.note("update met a change");
        }
        let now = self.now();
        if self.sabotage != Some(Sabotage::ChangeToldLate) {
            self.process.copies.change_began(&object_id(object));
        }
        if self.sabotage == Some(Sabotage::ChangeEndedEarly) {
            self.process.copies.change_ended(now, &object_id(object));
        }
        self.ask_home(Waiting::Change(question), AtHome::Change(object, change));
    }

    fn home_answered(&mut self, waiting: Waiting, answer: HomeAnswer) {
        let now = self.now();
        match waiting {
            Waiting::Read(question) => {
                self.told.note("read at the home");
                self.process.copies.read_ended(&home());
                self.reply(question, Answer::Read(answer.data));
            }
            Waiting::Change(question) => {
                let Ask::Change { object, .. } = question.ask else { panic!("a change") };
                if self.sabotage == Some(Sabotage::ChangeToldLate) {
                    self.process.copies.change_began(&object_id(object));
                }
                if self.sabotage != Some(Sabotage::ChangeEndedEarly) {
                    self.process.copies.change_ended(now, &object_id(object));
                }
                self.reply(question, Answer::Changed { version: answer.version });
            }
            Waiting::Update(object) => self.update_done_at_home(object, answer),
            Waiting::Make(number) => self.make_from(number, answer),
        }
    }

    fn hear(&mut self, delivery: Question, answer: Answer) {
        match delivery.from {
            Party::Client(at) => self.client_heard(at, &delivery, &answer),
            Party::Switch => match self.process.asked.remove(&delivery.id) {
                Some(Asked::Piece(number)) => self.piece_answered(number, &answer),
                Some(Asked::Update(update)) => self.update_answered(&update, &answer),
                Some(Asked::Read { question, copy_node, state }) => {
                    self.copy_answered(question, (copy_node, state), answer);
                }
                None => {}
            },
            _ => {}
        }
    }

    fn copy_answered(
        &mut self,
        question: Question,
        (at, state): (usize, CopyState),
        answer: Answer,
    ) {
        let Ask::Read { object } = question.ask else { panic!("a read") };
        let (now, target, copies) = (self.now(), target(at), &mut self.process.copies);
        copies.read_ended(&target);
        let why = match answer {
            Answer::Copied(data) => {
                copies.read_served(&target);
                self.told.note("read at a copy");
                return self.reply(question, Answer::Read(data));
            }
            Answer::Lost => {
                let is_current = copies.is_current(&object_id(object), &home(), &target);
                self.told.note(if is_current {
                    "copy lost"
                } else {
                    "read overtaken by an update"
                });
                ReadFailure::Lost
            }
            _ => {
                self.told.note("target did not answer a read");
                ReadFailure::Target
            }
        };
        self.process.copies.read_failed(now, &object_id(object), (&target, state), why);
        self.ask_home(Waiting::Read(question), AtHome::Read(object));
    }

    fn client_heard(&mut self, at: usize, delivery: &Question, answer: &Answer) {
        let is_current = |(id, _): &mut (u64, Operation)| *id == delivery.id;
        let Some((_, operation)) = self.clients[at].operation.take_if(is_current) else { return };
        let (object, floor) = (operation.object, operation.floor);
        let seen = match answer {
            Answer::Read(data) => self.seen_version(object, data, floor),
            Answer::Changed { version } => {
                self.told.note("changed");
                (*version > floor).then_some(*version).ok_or("a change is older than a read")
            }
            _ => return self.told.note("outcome unknown"),
        };
        match seen {
            Ok(version) => {
                self.clients[at].done += 1;
                self.newest_seen[object] = self.newest_seen[object].max(version);
            }
            Err(why) => self.violation = Some(format!("object {object}, after {floor}: {why}")),
        }
    }

    fn seen_version(&self, object: usize, data: &Bytes, floor: u64) -> Result<u64, &'static str> {
        let version = self.home.version_with(object, data, floor);
        version.ok_or("a read returned a state that is too old or never was")
    }
}
