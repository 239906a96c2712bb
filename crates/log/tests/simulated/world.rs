//! Clients, hosts, objects and the stored view on one simulated network. A seed decides everything.

use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::histories::{LogAnswer, LogCall, Recorder, Ticket, check_log};
use nacre_conformance::network::{Delivery, Leg, Network};
use nacre_log::view::{Layout, View};
use nacre_log::{LogName, NATIVE_CLASS};
use nacre_object::{ClassName, PoolName};

use super::client::{Client, Turn};
use super::host::{Asks, Host};
use super::objects::Objects;
use super::{Answer, Ask, CLIENTS, HOSTS, Party, Placement, Sabotage, TARGETS, node};

const CALLS: usize = 40;
/// A world without further faults must come to rest within this many steps.
const MAX_STEPS: usize = 200_000;
/// Steps during which things go wrong.
const STORM_STEPS: usize = 4_000;
/// A misfortune strikes once in so many steps of the storm.
const MISFORTUNE_ONE_IN: u64 = 60;

/// One world in this many has hosts that all have the same name, as misconfigured processes do.
const ONE_NAME_IN: u64 = 5;

/// Whether to keep every message, which is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracing {
    Off,
    On,
}

/// What came of a run.
pub struct Outcome {
    pub trace: Vec<String>,
    pub chronicle: Chronicle,
}

/// Clients that use a log, hosts that issue positions, objects that store, and the stored view.
pub struct World {
    random: Random,
    network: Network<Party, Ask, Answer>,
    objects: Objects,
    stored: View,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    /// What each client is doing, for the history.
    tickets: Vec<Option<Ticket>>,
    history: Recorder<LogCall, LogAnswer>,
    /// The greatest tail told.
    greatest_tail: u64,
    /// Calls whose clients will never know.
    given_up: usize,
    tracing: Tracing,
    outcome: Outcome,
}

impl World {
    /// The error of a world that does not come to an end.
    pub const RESTLESS: &str = "the world does not come to rest";

    /// Runs a world to its end and checks what its clients saw.
    ///
    /// # Errors
    /// A description of the first violation.
    pub fn run(seed: u64, tracing: Tracing, sabotage: Option<Sabotage>) -> Result<Outcome, String> {
        let mut world = Self::new(seed, tracing, sabotage);
        for n in 0..CLIENTS {
            world.start_next(n);
        }
        for step in 0..MAX_STEPS {
            world.misfortune(step);
            if !world.step() {
                return world.judge();
            }
        }
        Err(Self::RESTLESS.into())
    }

    fn new(seed: u64, tracing: Tracing, sabotage: Option<Sabotage>) -> Self {
        let mut random = Random::seeded(seed);
        let layout =
            Layout { width: 1 + random.below(4) as u32, slots: 2 + random.below(12) as u32 };
        let (log, pool) = (LogName::new("l").unwrap(), PoolName::new("log").unwrap());
        let class = ClassName::new(NATIVE_CLASS).unwrap();
        let stored = View::first(log, pool, class, layout, 0, &Placement, &[]).unwrap();
        let is_of_one_name = seed % ONE_NAME_IN == ONE_NAME_IN - 1;
        let name = |n| node(if is_of_one_name { 0 } else { n });
        let client = |n| Client::new(n, CALLS, stored.clone(), is_of_one_name, sabotage);
        Self {
            random,
            network: Network::default(),
            objects: Objects::new(sabotage),
            hosts: (0..HOSTS).map(|n| Host::new(n, name(n), sabotage)).collect(),
            clients: (0..CLIENTS).map(client).collect(),
            tickets: (0..CLIENTS).map(|_| None).collect(),
            stored,
            history: Recorder::default(),
            greatest_tail: 0,
            given_up: 0,
            tracing,
            outcome: Outcome { trace: vec![], chronicle: Chronicle::default() },
        }
    }

    /// Causes a fault now and then, and ends all faults after the storm.
    fn misfortune(&mut self, step: usize) {
        self.network.is_stormy = step < STORM_STEPS;
        if step == STORM_STEPS {
            self.hosts.iter_mut().for_each(|host| host.is_alive = true);
            self.objects.is_alive = [true; TARGETS];
            self.network.resume_all();
        }
        if step >= STORM_STEPS || !self.random.one_in(MISFORTUNE_ONE_IN) {
            return;
        }
        let told = &mut self.outcome.chronicle;
        let host = self.random.below(HOSTS as u64) as usize;
        match self.random.below(12) {
            0..3 => {
                self.hosts[host].is_alive ^= true;
                // What comes back has forgotten everything.
                self.hosts[host].forget();
                told.note("host crashed");
            }
            3..5 => {
                let n = self.random.below(TARGETS as u64) as usize;
                self.objects.is_alive[n] ^= true;
                told.note("target unreachable");
            }
            5 => {
                told.note("client crashed");
                let n = self.random.below(CLIENTS as u64) as usize;
                self.clients[n].forget();
                self.given_up += usize::from(self.tickets[n].take().is_some());
                self.start_next(n);
            }
            6..9 => self.pause_somebody(),
            9 => self.turn_a_clock(),
            _ => {
                for n in 0..HOSTS {
                    let asks = self.hosts[n].lay_out_anew();
                    self.send_all(Party::Host(n), asks);
                }
            }
        }
    }

    fn somebody(&mut self) -> Party {
        let n = |random: &mut Random, count: usize| random.below(count as u64) as usize;
        match self.random.below(7) {
            0..3 => Party::Host(n(&mut self.random, HOSTS)),
            3 => Party::Target(n(&mut self.random, TARGETS)),
            4 => Party::Views,
            _ => Party::Client(n(&mut self.random, CLIENTS)),
        }
    }

    fn pause_somebody(&mut self) {
        let party = self.somebody();
        self.outcome.chronicle.note(match party {
            Party::Host(_) => "host paused",
            Party::Target(_) => "target paused",
            Party::Client(_) => "client paused",
            Party::Views => "views paused",
        });
        // Long enough that the others take the party for dead and continue without it.
        let time = 20 + self.random.below(600);
        self.network.pause(party, time);
    }

    fn turn_a_clock(&mut self) {
        let (party, by) = (self.somebody(), self.random.below(400) as i64);
        let is_forward = self.random.one_in(2);
        self.outcome.chronicle.note(if is_forward { "clock forward" } else { "clock back" });
        self.network.jump_clock(party, if is_forward { by } else { -by });
        if let Party::Target(n) = party {
            self.objects.clocks[n] = self.random.below(1 << 50);
        }
    }

    /// Delivers one message; answers whether there was one.
    fn step(&mut self) -> bool {
        let told = &mut self.outcome.chronicle;
        let Some(delivery) = self.network.next(&mut |what| told.note(what)) else { return false };
        if self.tracing == Tracing::On {
            self.outcome.trace.push(format!("{} {delivery:?}", self.network.now()));
        }
        let answer = match delivery.leg {
            Leg::Question => {
                self.serve(delivery);
                return true;
            }
            Leg::Answer(answer) => answer,
            Leg::Timeout => Answer::Silence,
        };
        self.hear(delivery.from, delivery.id, &delivery.ask, answer);
        true
    }

    /// Carries out a request, if the party that receives it is alive.
    fn serve(&mut self, question: Delivery<Party, Ask, Answer>) {
        let answer = match question.to {
            Party::Views => Some(match &question.ask {
                Ask::Propose(view) => Answer::Proposed(self.propose(view)),
                _ => Answer::View(self.stored.clone()),
            }),
            Party::Host(n) => {
                let told = &mut self.outcome.chronicle;
                let (answer, asks) = self.hosts[n].serve(&question.ask, told);
                self.note_service(n, answer.as_ref());
                self.send_all(Party::Host(n), asks);
                answer
            }
            _ => self.objects.run(&question.ask),
        };
        if let Some(answer) = answer {
            let told = &mut self.outcome.chronicle;
            self.network.reply(&mut self.random, &mut |what| told.note(what), question, answer);
        }
    }

    fn note_service(&mut self, n: usize, answer: Option<&Answer>) {
        let installed = self.stored.sequencer().map(|sequencer| sequencer.epoch);
        let is_deposed = self.hosts[n].serves_since() < installed;
        if is_deposed && matches!(answer, Some(Answer::Granted { .. })) {
            self.outcome.chronicle.note("deposed sequencer served");
        }
    }

    fn propose(&mut self, view: &View) -> bool {
        let is_next = nacre_host::check_proposal(self.stored.epoch(), view).is_ok();
        if is_next {
            let told = &mut self.outcome.chronicle;
            if view.sequencer() != self.stored.sequencer() && self.stored.sequencer().is_some() {
                told.note("sequencer replaced");
            }
            if view.last_range().columns.iter().any(|salt| *salt > 0) {
                told.note("view salted away from a target");
            }
            self.stored = view.clone();
        }
        is_next
    }

    fn hear(&mut self, to: Party, id: u64, ask: &Ask, answer: Answer) {
        let told = &mut self.outcome.chronicle;
        match to {
            Party::Host(n) => {
                let asks = self.hosts[n].hear(id, ask, answer, told);
                self.send_all(to, asks);
            }
            Party::Client(n) => {
                let turn = self.clients[n].hear(id, ask, answer, &mut self.random, told);
                self.take(n, turn);
            }
            Party::Target(_) | Party::Views => unreachable!("they ask nothing"),
        }
    }

    fn take(&mut self, n: usize, turn: Turn) {
        match turn {
            Turn::Ask(asks) => return self.send_all(Party::Client(n), asks),
            Turn::Done(answer) => {
                if let LogAnswer::Tail(tail) = answer {
                    if tail < self.greatest_tail {
                        self.outcome.chronicle.note("tail lower than one told before");
                    }
                    self.greatest_tail = self.greatest_tail.max(tail);
                }
                let ticket = self.tickets[n].take().expect("it was doing something");
                self.history.end(ticket, answer);
            }
            Turn::Unknown => {
                self.tickets[n] = None;
                self.given_up += 1;
            }
            Turn::Refused => {
                let ticket = self.tickets[n].take().expect("it was doing something");
                self.history.never_happened(ticket);
            }
        }
        self.start_next(n);
    }

    fn start_next(&mut self, n: usize) {
        if let Some(call) = self.clients[n].next_call(&mut self.random) {
            self.tickets[n] = Some(self.history.begin(call));
            let turn = self.clients[n].start();
            self.take(n, turn);
        }
    }

    fn send_all(&mut self, from: Party, asks: Asks) {
        for (id, ask) in asks {
            let told = &mut self.outcome.chronicle;
            let note = &mut |what| told.note(what);
            self.network.send(&mut self.random, note, (from, id), (ask.to(), ask));
        }
    }

    /// Reads the whole log after all faults have ended, and checks the history.
    fn judge(mut self) -> Result<Outcome, String> {
        for (position, cell) in self.objects.cells(&self.stored).into_iter().enumerate() {
            let ticket = self.history.begin(LogCall::Read(position as u64));
            self.history.end(ticket, LogAnswer::Holds(cell));
        }
        let operations = self.history.operations();
        let unknown = operations.iter().filter(|operation| operation.answer.is_none()).count();
        if unknown != self.given_up {
            return Err(format!("{unknown} calls have no answer, {} were given up", self.given_up));
        }
        check_log(&operations).map(|()| self.outcome)
    }
}
