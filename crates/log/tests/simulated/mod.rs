//! A world of cores. See [`World`].

mod client;
mod host;
mod network;
mod objects;

use std::collections::BTreeMap;

use client::Client;
use host::Host;
use nacre_clock::Random;
use nacre_log::view::{Layout, View};
use nacre_log::{LogName, NATIVE_CLASS};
use nacre_object::{ClassName, Locate, NodeName, ObjectId, PoolName, TargetName};
use network::Network;
use objects::Objects;

pub const TARGETS: usize = 3;
pub const HOSTS: usize = 3;
const CLIENTS: usize = 4;
const RECORDS: usize = 25;
/// Steps after which a world that is whole again must have come to rest.
const MAX_STEPS: usize = 200_000;
/// Steps during which things go wrong.
const STORM_STEPS: usize = 3_000;

/// Who sends and gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Client(usize),
    Host(usize),
}

/// What is asked, of whom follows from it.
#[derive(Debug, Clone)]
pub enum Ask {
    Next { host: usize, epoch: u64 },
    Recover { host: usize, epoch: u64 },
    ReadView,
    Propose(View),
    Seal { object: ObjectId, epoch: u64 },
    Maximum { object: ObjectId },
    Write { object: ObjectId, epoch: u64, position: u64, record: u64 },
    Read { object: ObjectId, epoch: u64, position: u64 },
}

/// What is answered. Nothing at all is [`Answer::Silence`], after a while.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Granted { position: u64, epoch: u64 },
    Refused,
    View(View),
    Proposed(bool),
    Status(i32),
    Maximum(Option<u64>),
    Data(u64),
    Silence,
}

/// What came of a run.
pub struct Outcome {
    pub trace: Vec<String>,
    pub takeovers: usize,
    pub doubts: usize,
}

/// Placement over the targets by a checksum of the placement key.
pub struct Placement;

impl Locate for Placement {
    fn locate(&self, object: &ObjectId) -> TargetName {
        let key = object.name.placement_key().bytes();
        let sum = key.fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        self.targets()[sum as usize % TARGETS].clone()
    }

    fn targets(&self) -> Vec<TargetName> {
        (0..TARGETS).map(|n| TargetName::new(format!("t{n}")).unwrap()).collect()
    }
}

pub fn target_number(object: &ObjectId) -> usize {
    Placement.locate(object).as_str()[1..].parse().unwrap()
}

pub fn node(n: usize) -> NodeName {
    NodeName::new(format!("n{n}")).unwrap()
}

pub fn node_number(name: &NodeName) -> usize {
    name.as_str()[1..].parse().unwrap()
}

/// Clients that append, hosts that sequence, objects that store, and the stored view.
pub struct World {
    pub random: Random,
    pub network: Network,
    pub objects: Objects,
    pub stored: View,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    acknowledged: BTreeMap<u64, u64>,
    outcome: Outcome,
}

impl World {
    /// Runs a world to its end and checks it.
    pub fn run(seed: u64) -> Outcome {
        let mut world = Self::new(seed);
        for step in 0..MAX_STEPS {
            world.misfortune(step);
            if !world.step() {
                world.check(seed);
                return world.outcome;
            }
        }
        panic!("seed {seed}: the world does not come to rest");
    }

    fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let layout = Layout { width: 1 + random.below(4) as u32, slots: 200 };
        let (log, pool) = (LogName::new("l").unwrap(), PoolName::new("log").unwrap());
        let class = ClassName::new(NATIVE_CLASS).unwrap();
        let stored = View::first(log, pool, class, layout, &Placement).unwrap();
        let mut world = Self {
            random,
            network: Network::default(),
            objects: Objects::default(),
            hosts: (0..HOSTS).map(|n| Host::new(n, stored.clone())).collect(),
            clients: (0..CLIENTS).map(|n| Client::new(n, RECORDS, stored.clone())).collect(),
            stored,
            acknowledged: BTreeMap::new(),
            outcome: Outcome { trace: vec![], takeovers: 0, doubts: 0 },
        };
        for n in 0..CLIENTS {
            let asks = world.clients[n].start(None);
            world.send_all(Party::Client(n), asks);
        }
        world
    }

    /// Lets something go wrong now and then, and everything be well in the end.
    fn misfortune(&mut self, step: usize) {
        self.network.is_stormy = step < STORM_STEPS;
        if step == STORM_STEPS {
            self.hosts.iter_mut().for_each(|host| host.is_alive = true);
            self.objects.is_alive = [true; TARGETS];
        }
        if step >= STORM_STEPS || !self.random.one_in(120) {
            return;
        }
        if self.random.one_in(2) {
            let n = self.random.below(HOSTS as u64) as usize;
            self.hosts[n].is_alive ^= true;
            // What comes back has forgotten everything.
            self.hosts[n].forget();
        } else {
            let n = self.random.below(TARGETS as u64) as usize;
            self.objects.is_alive[n] ^= true;
        }
    }

    /// Delivers one message; answers whether there was one.
    fn step(&mut self) -> bool {
        let Some(delivery) = self.network.next() else { return false };
        self.outcome.trace.push(format!("{delivery:?}"));
        match delivery.answer {
            None => self.serve(delivery.from, delivery.id, delivery.ask),
            Some(answer) => self.hear(delivery.from, delivery.id, &delivery.ask, answer),
        }
        true
    }

    /// Carries out what was asked, if whoever was asked is there.
    fn serve(&mut self, from: Party, id: u64, ask: Ask) {
        let answer = match &ask {
            Ask::ReadView => Some(Answer::View(self.stored.clone())),
            Ask::Propose(view) => Some(Answer::Proposed(self.propose(view))),
            Ask::Next { host, epoch } => self.hosts[*host].next(*epoch),
            Ask::Recover { host, epoch } => {
                let (answer, asks) = self.hosts[*host].recover(*epoch);
                self.send_all(Party::Host(*host), asks);
                answer
            }
            on_object => self.objects.run(on_object),
        };
        if let Some(answer) = answer {
            self.network.reply(&mut self.random, from, id, ask, answer);
        }
    }

    fn propose(&mut self, view: &View) -> bool {
        let is_next = View::check_proposal(self.stored.epoch(), view).is_ok();
        if is_next {
            if view.sequencer() != self.stored.sequencer() {
                self.outcome.takeovers += 1;
            }
            self.stored = view.clone();
        }
        is_next
    }

    fn hear(&mut self, to: Party, id: u64, ask: &Ask, answer: Answer) {
        match to {
            Party::Host(n) => {
                let asks = self.hosts[n].hear(id, ask, answer);
                self.send_all(to, asks);
            }
            Party::Client(n) => {
                if matches!((ask, &answer), (Ask::Write { .. }, Answer::Silence)) {
                    self.outcome.doubts += 1;
                }
                let (asks, done) = self.clients[n].hear(id, ask, answer, &mut self.random);
                self.send_all(to, asks);
                if let Some((record, position)) = done {
                    self.acknowledge(n, record, position);
                }
            }
        }
    }

    fn acknowledge(&mut self, n: usize, record: u64, position: u64) {
        let floor = self.clients[n].floor;
        assert!(
            Some(position) > floor,
            "{record} at {position}, though {floor:?} was taken before"
        );
        let other = self.acknowledged.insert(position, record);
        assert_eq!(other, None, "two records at {position}");
        let greatest = self.acknowledged.last_key_value().map(|(position, _)| *position);
        let asks = self.clients[n].start(greatest);
        self.send_all(Party::Client(n), asks);
    }

    fn send_all(&mut self, from: Party, asks: Vec<(u64, Ask)>) {
        for (id, ask) in asks {
            self.network.send(&mut self.random, from, id, ask);
        }
    }

    /// Every record is there once, and where it was acknowledged.
    fn check(&mut self, seed: u64) {
        let mut found = BTreeMap::new();
        for (position, record) in self.objects.records(&self.stored) {
            let other = found.insert(record, position);
            assert_eq!(other, None, "seed {seed}: record {record} is there twice");
        }
        assert_eq!(found.len(), CLIENTS * RECORDS, "seed {seed}: records in the log");
        for (position, record) in &self.acknowledged {
            assert_eq!(found.get(record), Some(position), "seed {seed}: record {record}");
        }
    }
}
