//! Clients, a switch with its home, and targets with copies, on one network.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::network::{Delivery, Leg, Network};
use nacre_object::ObjectId;
use nacre_route::{
    Choice, CopyTag, CopyToDrop, CopyWrite, MakeFailure, ReadFailure, ReadFrom, Scatter, Take, Term,
};

use super::copy_node::CopyNode;
use super::home::Home;
use super::process::{Asked, MakingCopy, Process, Waiting, object_id, process};
use super::{
    Answer, Ask, AtHome, BLOCK_BYTES, BLOCKS, CLIENTS, COPY_NODES, Change, HomeAnswer, OBJECTS,
    Party, Sabotage, copy_node_of, target,
};

/// The most steps of a run. A run that has not finished by then has failed.
const MAX_STEPS: usize = 100_000;
/// The number of steps in which faults happen.
const STORM_STEPS: usize = 8_000;
const MISFORTUNE_ONE_IN: u64 = 60;
/// The interval at which each party checks what is due.
const WAKE_EVERY: u64 = 6;
/// One of this many operations of clients is a change.
const CHANGE_ONE_IN: u64 = 20;
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
    random: Random,
    network: Network<Party, Ask, Answer>,
    clients: Vec<Client>,
    process: Process,
    home: Home,
    copy_nodes: Vec<CopyNode>,
    /// The newest version of each object that a client has written or read.
    newest_seen: Vec<u64>,
    /// Operations that the switch has heard of: sessions deliver each once.
    seen: BTreeSet<(Party, u64)>,
    next_id: u64,
    /// Whether the home crashes far more often than in other runs.
    is_short_lived: bool,
    sabotage: Option<Sabotage>,
    told: Chronicle,
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
        let mut world = Self {
            random: Random::seeded(seed),
            network: Network::default(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            process: process(1, sabotage),
            home: Home::new(),
            copy_nodes: (0..COPY_NODES).map(|_| CopyNode::default()).collect(),
            newest_seen: vec![0; OBJECTS],
            seen: BTreeSet::new(),
            next_id: 0,
            is_short_lived: seed % 4 == 3,
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
            if step < STORM_STEPS && self.random.one_in(MISFORTUNE_ONE_IN) {
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
        match self.random.below(8) {
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
        self.process = process(self.process.number + 1, self.sabotage);
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.network.now())
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn wake(&mut self, party: Party) {
        let id = self.id();
        let after = 1 + self.random.below(WAKE_EVERY);
        self.network.wake(party, id, Ask::Wake, after);
    }

    fn send(&mut self, from: Party, to: Party, ask: Ask) -> u64 {
        let id = self.id();
        let told = &mut self.told;
        self.network.send(&mut self.random, &mut |what| told.note(what), (from, id), (to, ask));
        id
    }

    fn post(&mut self, from: Party, to: Party, ask: Ask) {
        let id = self.id();
        self.network.post(&mut self.random, (from, id), (to, ask));
    }

    fn reply(&mut self, question: Question, answer: Answer) {
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
        let ask = match self.random.one_in(CHANGE_ONE_IN) {
            true => Ask::Change { object, change: self.change() },
            false => Ask::Read { object },
        };
        let operation = Operation { object, floor: self.newest_seen[object] };
        let id = self.send(party, Party::Switch, ask);
        self.clients[at].operation = Some((id, operation));
    }

    fn drop_copies(&mut self) {
        for CopyToDrop { object, target, tag } in self.process.copies.take_to_drop(1) {
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
        if self.random.one_in(4) {
            return Change::Truncate { blocks: self.random.below(BLOCKS + 1) };
        }
        let block = self.random.below(BLOCKS);
        let count = 1 + self.random.below(BLOCKS - block);
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
            (Ask::ReadCopy { object, tag }, Party::CopyNode(at)) => {
                let answer = self.copy_nodes[at].read(&object_id(*object), *tag, self.sabotage);
                self.reply(question, answer);
            }
            _ => {}
        }
    }

    fn ask_home(&mut self, waiting: Waiting, what: AtHome) {
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
        let planned = self.process.copies.read(now, &object_id(object), &scatter, random);
        for making in planned.make {
            let number = self.id() as usize;
            let making = MakingCopy { making, object, stat: None, block: 0, is_at_end: false };
            self.process.makings.insert(number, making);
            self.ask_home(Waiting::Make(number), AtHome::Stat(object));
        }
        match planned.from {
            ReadFrom::Home => self.ask_home(Waiting::Read(question), AtHome::Read(object)),
            ReadFrom::Copy { target, tag, .. } => {
                let copy_node = copy_node_of(&target);
                let to = Party::CopyNode(copy_node);
                let id = self.send(Party::Switch, to, Ask::ReadCopy { object, tag });
                self.process.asked.insert(id, Asked::Read { question, copy_node, tag });
            }
        }
    }

    fn begin_change(&mut self, object: usize, change: Change, question: Question) {
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
                self.process.copies.read_ended(&"s.0".parse().unwrap());
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
            Waiting::Make(number) => self.make_from(number, answer),
        }
    }

    /// Goes on with a copy after an answer of the engine.
    fn make_from(&mut self, number: usize, answer: HomeAnswer) {
        let Some(one) = self.process.makings.get_mut(&number) else { return };
        let (object, block) = (one.object, one.block);
        match one.stat {
            None => {
                one.stat = Some(answer.stat);
                self.ask_home(Waiting::Make(number), AtHome::ReadBlock(object, 0));
            }
            Some(stat) if one.is_at_end => match stat == answer.stat {
                true => self.made(number, Ok(())),
                false => self.made(number, Err(MakeFailure::Changed)),
            },
            Some(stat) => {
                let left = stat.size.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES);
                if answer.data.len() as u64 != left {
                    return self.made(number, Err(MakeFailure::Changed));
                }
                let write = CopyWrite {
                    home: object_id(object),
                    tag: one.making.tag,
                    size: stat.size,
                    offset: block * BLOCK_BYTES,
                    data: answer.data,
                };
                let to = Party::CopyNode(copy_node_of(&one.making.target));
                let id = self.send(Party::Switch, to, Ask::Piece(write));
                self.process.asked.insert(id, Asked::Piece(number));
            }
        }
    }

    /// Goes on with a copy after an answer of its target.
    fn piece_answered(&mut self, number: usize, answer: &Answer) {
        if !matches!(answer, Answer::Stored) {
            return self.made(number, Err(MakeFailure::Target));
        }
        let Some(one) = self.process.makings.get_mut(&number) else { return };
        one.block += 1;
        let (object, block) = (one.object, one.block);
        one.is_at_end = one.stat.is_some_and(|stat| block * BLOCK_BYTES >= stat.size);
        let what = match one.is_at_end {
            true => AtHome::Stat(object),
            false => AtHome::ReadBlock(object, block),
        };
        self.ask_home(Waiting::Make(number), what);
    }

    fn made(&mut self, number: usize, outcome: Result<(), MakeFailure>) {
        let now = self.now();
        let Some(one) = self.process.makings.remove(&number) else { return };
        let is_wanted = self.process.copies.is_wanted(&one.making);
        self.told.note(match (outcome.is_ok(), is_wanted) {
            (true, true) => "copy made",
            (_, false) => "copy became useless in the making",
            (false, true) => "copy not made",
        });
        let outcome = outcome.map(|()| one.stat.expect("the first answer has it"));
        self.process.copies.made(now, &one.making, outcome);
    }

    fn hear(&mut self, delivery: Question, answer: Answer) {
        match delivery.from {
            Party::Client(at) => self.client_heard(at, &delivery, &answer),
            Party::Switch => match self.process.asked.remove(&delivery.id) {
                Some(Asked::Piece(number)) => self.piece_answered(number, &answer),
                Some(Asked::Read { question, copy_node, tag }) => {
                    self.copy_answered(question, (copy_node, tag), answer);
                }
                None => {}
            },
            _ => {}
        }
    }

    fn copy_answered(&mut self, question: Question, (at, tag): (usize, CopyTag), answer: Answer) {
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
                self.told.note("copy lost");
                ReadFailure::Lost
            }
            _ => {
                self.told.note("target did not answer a read");
                ReadFailure::Target
            }
        };
        copies.read_failed(now, &object_id(object), (&target, tag), why);
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
