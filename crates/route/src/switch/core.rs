//! `Switch`: events and the time in, commands out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nacre_object::{Error, ObjectId, Request, Result};

use super::in_flight::{InFlight, is_about};
use super::message::RefusedIo;
use super::programs::Inserted;
use super::waiting::{Arrival, Waiting};
use super::{Command, Event, IoId, Order, OrderAnswer, Placed, Stamp, SwitchRules, Term};
use crate::limits::MAX_HELD_IOS;
use crate::model::{
    Destination, Header, LayerName, ObjectMatch, Operation, Operations, Programs, SourceMatch,
    Span, SwitchName, Touch, touches,
};
use crate::rules::{Placement, RuleTable};

/// One switch. It stores nothing: after a restart it begins without rules.
#[derive(Debug)]
pub struct Switch {
    pub(super) name: SwitchName,
    /// The latest term that it has heard of.
    term: Term,
    /// The term of its rules; `None` until it is told some.
    pub(super) installed: Option<Term>,
    pub(super) table: RuleTable,
    /// What the programs declare that its rules name.
    pub(super) programs: Programs,
    /// The rules that programs have inserted.
    pub(super) inserted: Inserted,
    /// Whether installed rules send reads elsewhere. If not, the switch need not note that bytes
    /// are home.
    reads_go_away: bool,
    /// The previous term, and the headers that were held when it ended. IO that was sent under this
    /// term and matches none of these headers goes on, because its rules have not changed.
    previous: Option<(Term, Vec<Header>)>,
    /// Which IO is held.
    quiesced: Vec<Header>,
    pub(super) peers: Vec<SwitchName>,
    /// The greatest counter that it has used or heard of.
    pub(super) counter: u64,
    pub(super) in_flight: InFlight,
    pub(super) waiting: Waiting,
    /// The orders to drain that wait.
    draining: Vec<u64>,
    /// What it has promised to hold for agreements of others.
    pub(super) prepared: BTreeMap<Stamp, (ObjectId, Vec<Span>)>,
    /// Agreements that failed, and the peers that have not heard it.
    pub(super) aborted: BTreeMap<Stamp, BTreeSet<SwitchName>>,
}

/// The header of every IO.
fn everything() -> Header {
    Header {
        source: SourceMatch::Any,
        operations: Operations::ALL,
        object: ObjectMatch::all(),
        span: Span::WHOLE,
    }
}

impl Switch {
    /// A switch that has started. It holds all IO until it is told its rules.
    pub fn new(name: SwitchName) -> Self {
        Self {
            name,
            term: Term::default(),
            installed: None,
            table: RuleTable::default(),
            programs: Programs::new(),
            inserted: Inserted::default(),
            reads_go_away: false,
            previous: None,
            quiesced: vec![everything()],
            peers: vec![],
            counter: 0,
            in_flight: InFlight::default(),
            waiting: Waiting::default(),
            draining: vec![],
            prepared: BTreeMap::new(),
            aborted: BTreeMap::new(),
        }
    }

    /// Its rules.
    pub fn table(&self) -> &RuleTable {
        &self.table
    }

    /// The term of its rules; `None` until it is told some.
    pub fn installed(&self) -> Option<Term> {
        self.installed
    }

    /// What the programs declare that its rules name.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The greatest counter that it has used or heard of.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// The bytes that the runtime must bring home before this IO in flight happens; `None` if the
    /// IO brings nothing home.
    pub fn homeward(&self, io: IoId) -> Option<Span> {
        self.in_flight.get(io).and_then(|flying| flying.arrival.homeward)
    }

    /// Notes that an IO in flight has brought bytes home. No other IO on these bytes is in flight.
    pub fn brought_home(&mut self, object: &ObjectId, span: Span) {
        for placement in self.table.placed(object, span) {
            let placement = Placement { destination: Destination::Home, ..placement };
            self.place(&[Placed { object: object.clone(), placement }]);
        }
    }

    /// How many IOs are in flight, and how many are held.
    pub fn load(&self) -> (usize, usize) {
        (self.in_flight.len(), self.waiting.len())
    }

    /// Processes an event, and returns the commands that follow from it. Events that come late or
    /// twice are harmless.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Command> {
        match event {
            Event::Arrived { io, request, via, term } => self.arrived(now, io, request, via, term),
            Event::ArrivedHomeward { io, request, span } => {
                self.arrived_homeward(now, io, request, span)
            }
            Event::PieceDone { io, piece, outcome } => self.piece_done(now, io, piece, &outcome),
            Event::Decided { io, piece, destination } => self.decided(io, piece, destination),
            Event::ProgramsDecided { io, object, term, decided } => {
                self.programs_decided(now, io, &object, term, decided)
            }
            Event::Ordered { ticket, term, order } => self.ordered(now, ticket, term, order),
            Event::PeerAsked { ticket, agreement, question } => {
                self.peer_asked(now, ticket, &agreement, question)
            }
            Event::PeerAnswered { peer, agreement, question, answer } => {
                self.peer_answered(now, peer, &agreement, question, answer)
            }
            Event::Tick => self.tick(now),
        }
    }

    fn arrived(
        &mut self,
        now: Duration,
        io: IoId,
        request: Request,
        via: Option<LayerName>,
        term: Option<Term>,
    ) -> Vec<Command> {
        let touches = touches(&request);
        let (homeward, asked) = (None, None);
        let arrival = Arrival { io, request, via, term, homeward, touches, attempts: 0, asked };
        self.admit(now, arrival)
    }

    fn arrived_homeward(
        &mut self,
        now: Duration,
        io: IoId,
        request: Request,
        span: Span,
    ) -> Vec<Command> {
        let touches = vec![Touch { operation: Operation::Write, span: Some(span) }];
        let (homeward, via, term, asked) = (Some(span), None, None, None);
        let arrival = Arrival { io, request, via, term, homeward, touches, attempts: 0, asked };
        self.admit(now, arrival)
    }

    /// Lets an IO go, or holds it.
    fn admit(&mut self, now: Duration, arrival: Arrival) -> Vec<Command> {
        if self.is_held(&arrival) {
            return self.hold(arrival);
        }
        self.launch(now, arrival)
    }

    pub(super) fn hold(&mut self, arrival: Arrival) -> Vec<Command> {
        if self.waiting.len() >= MAX_HELD_IOS {
            let error = Error::exhausted(format!("{MAX_HELD_IOS} IOs wait at the switch"))
                .on(&arrival.request.header.object)
                .hint("try again");
            return vec![refuse(arrival.io, error)];
        }
        self.waiting.push_back(arrival);
        vec![]
    }

    fn is_held(&self, arrival: &Arrival) -> bool {
        if self.installed.is_none() {
            return true;
        }
        // IO from another switch or a layer has begun already, so a drain waits for it.
        let begins_here = arrival.term.is_none() && arrival.via.is_none();
        if begins_here && self.quiesced.iter().any(|header| is_about(header, arrival)) {
            return true;
        }
        // IO that comes out of a layer belongs to an IO that is in flight here.
        let object = &arrival.request.header.object;
        arrival.via.is_none()
            && (self.is_promised(arrival) || self.waiting.is_before(object, &arrival.touches))
    }

    /// Whether an IO that another switch sent under the rules of `term` may go on here. It may not
    /// if its rules have changed since. All such IO ended before the change, except IO of a switch
    /// that has died.
    pub(super) fn knows(&self, term: Term, arrival: &Arrival) -> bool {
        let is_unchanged =
            |held: &Vec<Header>| !held.iter().any(|header| is_about(header, arrival));
        self.installed == Some(term)
            || self.previous.as_ref().is_some_and(|(t, held)| *t == term && is_unchanged(held))
    }

    /// Notes where newest bytes are.
    pub(super) fn place(&mut self, placed: &[Placed]) {
        for Placed { object, placement } in placed {
            // There is room for it, reserved when the write began.
            match placement.destination == Destination::Home && !self.reads_go_away {
                true => self.table.forget(object, placement.span),
                false => {
                    let _ = self.table.place(object, placement.clone());
                }
            }
        }
    }

    /// Releases the IO of one object that waited for something that has ended.
    pub(super) fn release(&mut self, now: Duration, object: &ObjectId) -> Vec<Command> {
        let arrivals = self.waiting.take(object);
        let mut commands = self.drained();
        commands.extend(arrivals.into_iter().flat_map(|arrival| self.admit(now, arrival)));
        commands
    }

    fn release_all(&mut self, now: Duration) -> Vec<Command> {
        let arrivals = self.waiting.take_all();
        arrivals.into_iter().flat_map(|arrival| self.admit(now, arrival)).collect()
    }

    fn ordered(&mut self, now: Duration, ticket: u64, term: Term, order: Order) -> Vec<Command> {
        let answer = |answer| vec![Command::AnswerOrder { ticket, answer }];
        if term < self.term {
            return answer(OrderAnswer::Stale(self.term));
        }
        if term > self.term {
            self.term = term;
            self.draining.clear();
        }
        let is_installed = self.installed == Some(term);
        match order {
            Order::Quiesce(headers) => {
                if !is_installed {
                    let new = headers.into_iter().filter(|header| !self.quiesced.contains(header));
                    let new: Vec<_> = new.collect();
                    self.quiesced.extend(new);
                }
                answer(OrderAnswer::Done)
            }
            Order::Drain if is_installed => answer(OrderAnswer::Done),
            Order::Drain => {
                self.draining.push(ticket);
                self.drained()
            }
            Order::Install(rules) => match is_installed || self.install(term, rules).is_ok() {
                true => answer(OrderAnswer::Done),
                false => answer(OrderAnswer::Full),
            },
            Order::Resume if !is_installed => answer(OrderAnswer::NotInstalled),
            Order::Resume => {
                self.quiesced.clear();
                let mut commands = answer(OrderAnswer::Done);
                commands.extend(self.release_all(now));
                commands
            }
        }
    }

    /// Replies to drain requests once no IO of the quiesced headers is in flight.
    pub(super) fn drained(&mut self) -> Vec<Command> {
        let is_quiesced = |header: &Header| self.in_flight.iter().any(|f| f.matches(header));
        if self.draining.is_empty() || self.quiesced.iter().any(is_quiesced) {
            return vec![];
        }
        let tickets = std::mem::take(&mut self.draining).into_iter();
        let answer = OrderAnswer::Done;
        tickets.map(|ticket| Command::AnswerOrder { ticket, answer }).collect()
    }

    fn install(&mut self, term: Term, rules: SwitchRules) -> Result<()> {
        let mut table = RuleTable::default();
        for insertion in rules.insertions {
            table.insert(insertion)?;
        }
        for Placed { object, placement } in rules.placed {
            table.place(&object, placement)?;
        }
        self.reads_go_away = table.sends_reads_away();
        self.keep_inserted(&table, &rules.programs);
        self.table = table;
        self.programs = rules.programs;
        self.previous = self.installed.map(|installed| (installed, self.quiesced.clone()));
        self.installed = Some(term);
        self.counter = self.counter.max(term.first_counter());
        self.peers = rules.peers;
        // These agreements do not matter any more: the controller has located the bytes.
        self.prepared.clear();
        self.aborted.clear();
        Ok(())
    }

    fn tick(&mut self, now: Duration) -> Vec<Command> {
        if self.installed.is_none() {
            return vec![Command::Join];
        }
        let mut commands = self.give_up_asking(now);
        commands.extend(self.remind_peers());
        commands.extend(self.release_all(now));
        commands
    }
}

/// Answers an IO with an error.
pub(super) fn refuse(io: IoId, error: Error) -> Command {
    Command::Refuse { io, error: RefusedIo(error.during("route")) }
}
