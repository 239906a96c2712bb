//! Clients, switches, controllers and endpoints on one network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::network::{Delivery, Leg, Network};
use nacre_object::{Error, Op, Reply, Request};
use nacre_route::{
    Command, Controller, ControllerEvent, Event, IoId, Order, OrderAnswer, Outcome, PeerAnswer,
    PeerQuestion, Piece, Span, Switch, SwitchName, join,
};

use super::checker::Checker;
use super::client::Client;
use super::coin;
use super::flows::{Flow, name};
use super::store::{Store, endpoint};
use super::{Answer, Ask, CLIENTS, CONTROLLERS, Endpoint, Party, Sabotage};

/// The most steps of a run. A run that has not finished by then has failed.
const MAX_STEPS: usize = 200_000;
/// The number of steps in which faults happen.
const STORM_STEPS: usize = 4_000;
const MISFORTUNE_ONE_IN: u64 = 120;
/// The interval at which each party checks what is due.
const WAKE_EVERY: u64 = 15;
/// One of this many changes is slow at the disk.
const SLOW_ONE_IN: u64 = 4;
/// The greatest delay of such a change.
const SLOWEST: u64 = 50;
/// IOs that each client completes after the storm.
const CALM_IOS: u64 = 8;

type Question = Delivery<Party, Ask, Answer>;

/// An IO at a switch.
struct Io {
    switch: usize,
    request: Arc<Request>,
    question: Question,
    replies: BTreeMap<usize, (Piece, Result<Reply, Error>)>,
    endpoints: BTreeSet<Endpoint>,
}

pub struct World {
    pub(super) random: Random,
    network: Network<Party, Ask, Answer>,
    pub(super) flow: Flow,
    store: Store,
    checker: Checker,
    clients: Vec<Client>,
    switches: Vec<Switch>,
    /// `None` for one that is not in charge.
    pub(super) controllers: Vec<Option<Controller>>,
    ios: BTreeMap<IoId, Io>,
    /// The pieces under way, by the number of their question.
    pieces: BTreeMap<u64, (IoId, usize)>,
    /// Questions that wait for an answer of a switch.
    tickets: BTreeMap<u64, Question>,
    /// Changes at which the disk is slow.
    slow: BTreeMap<u64, Question>,
    /// IO that switches have heard of: sessions deliver each once.
    seen: BTreeSet<(Party, u64)>,
    next_id: u64,
    sabotage: Option<Sabotage>,
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
        let flow = Flow::of(seed);
        let mut world = Self {
            random: Random::seeded(seed),
            network: Network::default(),
            flow,
            store: Store::new(sabotage),
            checker: Checker::default(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            switches: (0..flow.switches()).map(|at| Switch::new(name(at))).collect(),
            controllers: (0..CONTROLLERS).map(|_| None).collect(),
            ios: BTreeMap::new(),
            pieces: BTreeMap::new(),
            tickets: BTreeMap::new(),
            slow: BTreeMap::new(),
            seen: BTreeSet::new(),
            next_id: 0,
            sabotage,
            told: Chronicle::default(),
            violation: None,
        };
        for party in world.parties() {
            world.wake(party);
        }
        world.go()?;
        Ok(world.told)
    }

    fn go(&mut self) -> Result<(), String> {
        let mut goals = vec![u64::MAX; CLIENTS];
        for step in 0..MAX_STEPS {
            if step == STORM_STEPS {
                self.network.resume_all();
                goals = self.clients.iter().map(|client| client.done + CALM_IOS).collect();
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
        Err(Self::RESTLESS.into())
    }

    fn parties(&self) -> Vec<Party> {
        let switches = (0..self.switches.len()).map(Party::Switch);
        let controllers = (0..CONTROLLERS).map(Party::Controller);
        (0..CLIENTS).map(Party::Client).chain(switches).chain(controllers).collect()
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.network.now())
    }

    fn wake(&mut self, party: Party) {
        self.next_id += 1;
        self.network.wake(party, self.next_id, Ask::Wake, WAKE_EVERY);
    }

    fn misfortune(&mut self) {
        let parties = self.parties();
        let somebody = *self.random.pick(&parties).unwrap();
        match (self.random.below(3), somebody) {
            (0 | 1, Party::Switch(at)) => {
                self.told.note("switch crashed");
                self.switches[at] = Switch::new(name(at));
                self.ios.retain(|_, io| io.switch != at);
            }
            (0, Party::Controller(at)) if self.controllers[at].is_some() => {
                self.told.note("controller crashed");
                self.controllers[at] = None;
            }
            (_, party) => {
                self.told.note("somebody paused");
                let time = 20 + self.random.below(600);
                self.network.pause(party, time);
            }
        }
    }

    fn step(&mut self) {
        let told = &mut self.told;
        let Some(delivery) = self.network.next(&mut |what| told.note(what)) else { return };
        match (&delivery.ask, delivery.leg.clone()) {
            (Ask::Wake, _) => self.woken(delivery.from),
            (Ask::Decided { io, term, decided }, _) => {
                let Party::Switch(at) = delivery.from else { panic!("a switch asks programs") };
                let (io, term, object) = (*io, *term, "data/x".parse().unwrap());
                let decided = decided.clone();
                self.tell_switch(at, Event::ProgramsDecided { io, object, term, decided });
            }
            (Ask::SlowDone { question }, _) => {
                if let Some(question) = self.slow.remove(question) {
                    self.serve_stored(question);
                }
            }
            (_, Leg::Question) => self.serve(delivery),
            (_, Leg::Answer(answer)) => self.hear(delivery, answer),
            (_, Leg::Timeout) => self.hear(delivery, Answer::Silence),
        }
    }

    fn woken(&mut self, party: Party) {
        self.wake(party);
        match party {
            Party::Client(at) if self.clients[at].is_idle() => {
                let id = self.next_id + 1;
                let request = self.clients[at].begin(id, &mut self.random, &self.checker);
                let switch = Party::Switch(self.flow.switch_of(at));
                self.send(party, switch, Ask::Io { request, term: None });
            }
            Party::Switch(at) => self.tell_switch(at, Event::Tick),
            Party::Controller(at) => self.controller_woken(at),
            _ => {}
        }
    }

    pub(super) fn send(&mut self, from: Party, to: Party, ask: Ask) -> u64 {
        self.next_id += 1;
        let told = &mut self.told;
        let note = &mut |what| told.note(what);
        self.network.send(&mut self.random, note, (from, self.next_id), (to, ask));
        self.next_id
    }

    fn reply(&mut self, question: Question, answer: Answer) {
        let told = &mut self.told;
        let note = &mut |what| told.note(what);
        self.network.reply(&mut self.random, note, question, answer);
    }

    fn serve(&mut self, question: Question) {
        match (question.to, question.ask.clone()) {
            (Party::Store, Ask::Piece { stamp: Some(_), .. })
                if self.random.one_in(SLOW_ONE_IN) =>
            {
                self.told.note("slow change");
                self.next_id += 1;
                let (id, after) = (self.next_id, 1 + self.random.below(SLOWEST));
                self.slow.insert(id, question);
                self.network.wake(Party::Store, id, Ask::SlowDone { question: id }, after);
            }
            (Party::Store, _) => self.serve_stored(question),
            (Party::Controller(at), Ask::Join { switch }) => {
                self.told.note("switch had no rules");
                self.tell_controller(at, ControllerEvent::Joined(name(switch)));
            }
            (Party::Switch(at), Ask::Io { request, term }) => {
                if self.seen.insert((question.from, question.id)) {
                    self.next_id += 1;
                    let io = IoId(self.next_id);
                    let (replies, endpoints) = (BTreeMap::new(), BTreeSet::new());
                    let request = Arc::new(request);
                    let state = Arc::clone(&request);
                    let state = Io { switch: at, request: state, question, replies, endpoints };
                    self.ios.insert(io, state);
                    self.tell_switch(
                        at,
                        Event::Arrived { io, request, via: None, home: None, term },
                    );
                }
            }
            (Party::Switch(at), ask) => self.serve_ticket(at, question, ask),
            (to, ask) => panic!("{ask:?} to {to:?}"),
        }
    }

    fn serve_stored(&mut self, question: Question) {
        let answer = self.stored(question.ask.clone());
        self.reply(question, answer);
    }

    fn serve_ticket(&mut self, at: usize, question: Question, ask: Ask) {
        if let Some(answer) = self.sabotaged(at, &ask) {
            return self.reply(question, answer);
        }
        self.next_id += 1;
        let ticket = self.next_id;
        self.tickets.insert(ticket, question);
        let event = match ask {
            Ask::Order { term, order } => Event::Ordered { ticket, term, order },
            Ask::Peer { agreement, question } => Event::PeerAsked { ticket, agreement, question },
            ask => panic!("{ask:?} to a switch"),
        };
        self.tell_switch(at, event);
    }

    /// What is answered in place of a switch.
    fn sabotaged(&self, at: usize, ask: &Ask) -> Option<Answer> {
        let done = Answer::Order(OrderAnswer::Done);
        match (self.sabotage?, ask) {
            (Sabotage::QuiesceSkipped, Ask::Order { order: Order::Quiesce(_), .. }) => {
                (at == 0).then_some(done)
            }
            (Sabotage::DrainedAtOnce, Ask::Order { order: Order::Drain, .. }) => Some(done),
            (
                Sabotage::PrepareSkipped,
                Ask::Peer { question: PeerQuestion::Prepare { .. }, .. },
            ) => Some(Answer::Peer(PeerAnswer::Prepared { counter: 0 })),
            (Sabotage::CommitSkipped, Ask::Peer { question: PeerQuestion::Commit { .. }, .. }) => {
                Some(Answer::Peer(PeerAnswer::Done))
            }
            _ => None,
        }
    }

    fn stored(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Piece { endpoint, request, stamp } => {
                self.store.run(endpoint, &request, stamp, &mut self.checker, &mut self.told)
            }
            Ask::Load => Answer::Loaded(self.store.record()),
            Ask::Keep { expected, record } => Answer::Kept(self.store.keep(expected, record)),
            Ask::Gather { moves, followed } => {
                Answer::Gathered(self.store.gather(&moves, &followed, &mut self.told))
            }
            ask => panic!("{ask:?} to the store"),
        }
    }

    fn hear(&mut self, delivery: Question, answer: Answer) {
        match (delivery.from, delivery.ask) {
            (Party::Client(at), _) => {
                let reply = match answer {
                    Answer::Replied(reply) => Some(reply),
                    _ => None,
                };
                let client = &mut self.clients[at];
                let heard = client.hear(delivery.id, reply, &mut self.checker, &mut self.told);
                self.violation = heard.err();
            }
            (Party::Switch(at), Ask::Piece { .. } | Ask::Io { .. }) => {
                self.piece_heard(at, delivery.id, answer);
            }
            (Party::Switch(at), Ask::Peer { agreement, question }) => {
                let Party::Switch(peer) = delivery.to else { panic!("a peer is a switch") };
                let answer = match answer {
                    Answer::Peer(answer) => Some(answer),
                    _ => None,
                };
                if matches!(question, PeerQuestion::Abort) {
                    self.told.note("agreement failed");
                }
                if matches!(question, PeerQuestion::Commit { .. }) && answer.is_some() {
                    self.told.note("agreed");
                }
                let peer = name(peer);
                self.tell_switch(at, Event::PeerAnswered { peer, agreement, question, answer });
            }
            (Party::Controller(at), ask) => self.controller_hears(at, delivery.to, ask, answer),
            _ => {}
        }
    }

    fn piece_heard(&mut self, at: usize, id: u64, answer: Answer) {
        let Some((io, piece)) = self.pieces.remove(&id) else { return };
        let Some(state) = self.ios.get_mut(&io) else { return };
        let (reply, outcome) = match answer {
            Answer::Replied(reply) => (Ok(reply), Outcome::Done),
            Answer::Outrun(stamp) => {
                self.told.note("outrun");
                (Err(Error::stale("outrun")), Outcome::Outrun(stamp))
            }
            _ => (Err(Error::unavailable("no answer")), Outcome::Failed),
        };
        if let Some(sent) = state.replies.get_mut(&piece) {
            sent.1 = reply;
        }
        self.tell_switch(at, Event::PieceDone { io, piece, outcome });
    }

    fn tell_switch(&mut self, at: usize, event: Event) {
        let now = self.now();
        for command in self.switches[at].handle(now, event) {
            self.obey(at, command);
        }
    }

    fn obey(&mut self, at: usize, command: Command) {
        let from = Party::Switch(at);
        match command {
            Command::Forward { io, piece, term, destination, ops, stamp, .. } => {
                let endpoint = destination.as_ref().map_or(Endpoint::Home, endpoint);
                let whole = Arc::clone(&self.ios[&io].request);
                let own = ops.of(&whole).to_vec();
                let span = span_of(&own[0]);
                let request = Request::new("data/x".parse().unwrap(), own).unwrap();
                let (to, ask) = match self.flow.switch_before(endpoint, at) {
                    Some(next) => (Party::Switch(next), Ask::Io { request, term: Some(term) }),
                    None => (Party::Store, Ask::Piece { endpoint, request, stamp }),
                };
                let id = self.send(from, to, ask);
                self.pieces.insert(id, (io, piece));
                let state = self.ios.get_mut(&io).unwrap();
                state.endpoints.insert(endpoint);
                let sent = Piece { span: Some(span), rule: None, ops };
                state.replies.insert(piece, (sent, Err(Error::unavailable("no answer"))));
            }
            Command::AskPrograms { io, term, asks } => {
                let decided = coin::answer(&asks, &mut self.random, &mut self.told);
                self.next_id += 1;
                let after = 1 + self.random.below(SLOWEST);
                self.network.wake(from, self.next_id, Ask::Decided { io, term, decided }, after);
            }
            Command::Finish { io } => self.finish(io),
            Command::Refuse { io, .. } => {
                self.told.note("refused");
                if let Some(io) = self.ios.remove(&io) {
                    self.reply(io.question, Answer::Failed);
                }
            }
            Command::AnswerOrder { ticket, answer } => {
                let question = self.tickets.remove(&ticket).unwrap();
                self.reply(question, Answer::Order(answer));
            }
            Command::AnswerPeer { ticket, answer } => {
                let question = self.tickets.remove(&ticket).unwrap();
                self.reply(question, Answer::Peer(answer));
            }
            Command::AskPeer { peer, agreement, question } => {
                self.send(from, party(&peer), Ask::Peer { agreement, question });
            }
            Command::Join => {
                for controller in 0..CONTROLLERS {
                    self.send(from, Party::Controller(controller), Ask::Join { switch: at });
                }
            }
            Command::AskWaypoint { .. } => panic!("no rule sends IO to a waypoint"),
            Command::AskController { .. } => panic!("no rule sends IO to the controller"),
        }
    }

    fn finish(&mut self, io: IoId) {
        let Some(io) = self.ios.remove(&io) else { return };
        if io.endpoints.len() > 1 {
            self.told.note("read from both endpoints at once");
        }
        let (pieces, replies): (Vec<_>, Vec<_>) = io.replies.into_values().unzip();
        let answer = match join(&pieces, replies) {
            Ok(reply) => Answer::Replied(reply),
            Err(_) => Answer::Failed,
        };
        self.reply(io.question, answer);
    }
}

fn span_of(op: &Op) -> Span {
    match op {
        Op::Read { offset, length } => Span::new(*offset, offset + length).unwrap(),
        Op::Write { offset, data } => Span::new(*offset, offset + data.len() as u64).unwrap(),
        op => panic!("{op:?}"),
    }
}

pub(super) fn party(switch: &SwitchName) -> Party {
    Party::Switch(switch.as_str()[1..].parse().unwrap())
}
