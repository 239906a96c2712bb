//! Clients, hosts and the store on one network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nacre_capability::{BestEffort, Policy, Terms, Time};
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::network::{Delivery, Leg, Network};

use super::client::Client;
use super::host::{Act, Host, Lasting};
use super::store::Store;
use super::{Answer, Ask, CLIENTS, HOSTS, Party, Sabotage};

const OPERATIONS: u64 = 60;
/// A world without further faults must come to rest within this many steps.
const MAX_STEPS: usize = 400_000;
/// Steps during which things go wrong.
const STORM_STEPS: usize = 6_000;
const MISFORTUNE_ONE_IN: u64 = 80;
/// How often each client and host checks what is due, in milliseconds.
const WAKE_EVERY: u64 = 15;
/// A holder polls its authority once in this many of its steps.
const NEWS_ONE_IN: u64 = 3;
/// The first reading of each clock. It is not 0, so that clocks can be turned back.
const FIRST_TIME: u64 = 1_000_000;

pub struct World {
    random: Random,
    network: Network<Party, Ask, Answer>,
    store: Store,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    next_id: u64,
    /// By how much each clock is ahead.
    clocks: BTreeMap<Party, i64>,
    /// When each request was sent, by the clock of its client.
    sent: BTreeMap<u64, Time>,
    /// Epochs whose holders were evicted.
    evicted: BTreeSet<u64>,
    has_clock_jumps: bool,
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
        let mut world = Self::new(seed, sabotage);
        for party in world.parties() {
            world.wake(party);
        }
        for step in 0..MAX_STEPS {
            world.misfortune(step);
            world.step();
            if let Some(violation) = world.violation.take().or(world.store.violation.take()) {
                return Err(violation);
            }
            if world.clients.iter().all(Client::is_done) {
                return world.judge();
            }
        }
        Err(Self::RESTLESS.into())
    }

    fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let hold = Some(Duration::from_millis(120));
        let policy = || -> Box<dyn Policy> {
            match seed % 4 {
                0 => Box::new(BestEffort),
                1 => Box::new(Lasting(Terms { hold, operations: None })),
                2 => Box::new(Lasting(Terms { hold: None, operations: Some(3) })),
                _ => Box::new(Lasting(Terms { hold, operations: Some(7) })),
            }
        };
        Self {
            random: Random::seeded(seed),
            network: Network::default(),
            store: Store::default(),
            hosts: (0..HOSTS).map(|_| Host::new(policy(), sabotage)).collect(),
            clients: (0..CLIENTS).map(|n| Client::new(n, OPERATIONS, sabotage)).collect(),
            next_id: 0,
            clocks: BTreeMap::new(),
            sent: BTreeMap::new(),
            evicted: BTreeSet::new(),
            has_clock_jumps: seed % 8 >= 4,
            sabotage,
            told: Chronicle::default(),
            violation: None,
        }
    }

    fn parties(&self) -> Vec<Party> {
        let hosts = (0..HOSTS).map(Party::Host);
        (0..CLIENTS).map(Party::Client).chain(hosts).collect()
    }

    fn clock(&self, party: Party) -> Time {
        let ahead = self.clocks.get(&party).copied().unwrap_or_default();
        Time::from_millis((FIRST_TIME + self.network.now()).saturating_add_signed(ahead))
    }

    fn wake(&mut self, party: Party) {
        self.next_id += 1;
        self.network.wake(party, self.next_id, Ask::Wake, WAKE_EVERY);
    }

    fn misfortune(&mut self, step: usize) {
        self.network.is_stormy = step < STORM_STEPS;
        if step == STORM_STEPS {
            self.hosts.iter_mut().for_each(|host| host.is_alive = true);
            self.network.resume_all();
        }
        if step >= STORM_STEPS || !self.random.one_in(MISFORTUNE_ONE_IN) {
            return;
        }
        let parties = self.parties();
        let somebody = *self.random.pick(&parties).expect("there are some");
        match (self.random.below(6), somebody) {
            (0 | 1, Party::Client(n)) => {
                self.told.note("client crashed");
                self.clients[n].crash();
            }
            (0, Party::Host(n)) => {
                self.told.note("host crashed");
                self.hosts[n].is_alive ^= true;
                self.hosts[n].crash();
            }
            (2, party) if self.has_clock_jumps => {
                let by = self.random.below(800) as i64 - 400;
                self.told.note(if by > 0 { "clock forward" } else { "clock back" });
                *self.clocks.entry(party).or_default() += by;
                self.network.jump_clock(party, by);
            }
            (_, party) => {
                self.told.note("somebody paused");
                let time = 20 + self.random.below(900);
                self.network.pause(party, time);
            }
        }
    }

    fn step(&mut self) {
        let told = &mut self.told;
        let Some(delivery) = self.network.next(&mut |what| told.note(what)) else { return };
        match (&delivery.ask, &delivery.leg) {
            (Ask::Wake, _) => self.woken(delivery.from),
            (_, Leg::Question) => self.serve(delivery),
            (_, Leg::Answer(answer)) => {
                let answer = *answer;
                self.hear(delivery, answer);
            }
            (_, Leg::Timeout) => self.hear(delivery, Answer::Silence),
        }
    }

    fn woken(&mut self, party: Party) {
        self.wake(party);
        let now = self.clock(party);
        match party {
            Party::Host(n) => {
                let acts = self.hosts[n].tick(now, &mut self.told);
                self.act(n, acts);
            }
            Party::Client(n) => {
                if self.random.one_in(NEWS_ONE_IN)
                    && let Some(report) = self.clients[n].report()
                {
                    self.send(party, report);
                }
                self.go_on(n);
            }
            Party::Store => {}
        }
    }

    fn go_on(&mut self, n: usize) {
        let now = self.clock(Party::Client(n));
        let epoch = self.clients[n].holds_under();
        let (ask, is_own) = self.clients[n].go_on(now, &mut self.told);
        let is_late = is_own && epoch.is_some_and(|epoch| self.evicted.contains(&epoch));
        if is_late && !self.has_clock_jumps {
            self.violation = Some("a holder went on after its lease was over".into());
        }
        if let Some(ask) = ask {
            self.send(Party::Client(n), ask);
        }
    }

    fn send(&mut self, from: Party, ask: Ask) {
        self.next_id += 1;
        self.sent.insert(self.next_id, self.clock(from));
        let told = &mut self.told;
        let note = &mut |what| told.note(what);
        let to = ask.to(from);
        self.network.send(&mut self.random, note, (from, self.next_id), (to, ask));
    }

    fn serve(&mut self, question: Delivery<Party, Ask, Answer>) {
        match question.to {
            Party::Store => {
                let answer = self.store.run(&question.ask, self.sabotage);
                self.reply(question, answer);
            }
            Party::Host(n) if self.hosts[n].is_alive => {
                let now = self.clock(Party::Host(n));
                let serving: BTreeSet<_> = self.hosts.iter().filter_map(Host::epoch).collect();
                if serving.len() > 1 {
                    self.told.note("two authorities at once");
                }
                let acts = self.hosts[n].serve(now, question, &mut self.told);
                self.act(n, acts);
            }
            Party::Host(_) | Party::Client(_) => {}
        }
    }

    fn act(&mut self, host: usize, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Reply(question, answer) => self.reply(question, answer),
                Act::Seal(epoch) => self.send(Party::Host(host), Ask::Seal { epoch }),
                Act::Evicted(epoch) => {
                    self.evicted.insert(epoch);
                }
            }
        }
    }

    fn reply(&mut self, question: Delivery<Party, Ask, Answer>, answer: Answer) {
        let told = &mut self.told;
        let note = &mut |what| told.note(what);
        self.network.reply(&mut self.random, note, question, answer);
    }

    fn hear(&mut self, delivery: Delivery<Party, Ask, Answer>, answer: Answer) {
        match delivery.from {
            Party::Host(n) => {
                let is_it = matches!(delivery.ask, Ask::Seal { epoch } if self.hosts[n].sealing == Some(epoch));
                if is_it && self.hosts[n].is_alive {
                    self.hosts[n].hear(answer);
                }
            }
            Party::Client(n) => {
                let sent = self.sent.remove(&delivery.id).expect("it was sent");
                let (random, told) = (&mut self.random, &mut self.told);
                let ask = self.clients[n].hear(sent, &delivery.ask, answer, random, told);
                if let Some(ask) = ask {
                    self.send(Party::Client(n), ask);
                }
            }
            Party::Store => {}
        }
    }

    /// Checks that each acknowledged operation is at the position that its client got.
    fn judge(self) -> Result<Chronicle, String> {
        for (position, operation) in self.clients.iter().flat_map(|client| &client.acknowledged) {
            if self.store.written.get(position) != Some(operation) {
                return Err(format!("{operation} is not at {position}"));
            }
        }
        Ok(self.told)
    }
}
