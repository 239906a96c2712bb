//! `Switch`: a state machine that takes events and the time, and returns commands.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use nacre_object::{Error, ObjectId, Result};

use super::in_flight::{InFlight, is_about};
use super::message::RefusedIo;
use super::programs::Inserted;
use super::waiting::{Arrival, Waiting};
use super::{Command, Event, IoId, Order, OrderAnswer, Placed, Stamp, SwitchRules, Term};
use crate::limits::MAX_HELD_IOS;
use crate::model::{
    Destination, Header, ObjectMatch, Operation, Operations, Programs, Rule, SourceMatch, Span,
    SwitchName, Touch, touches,
};
use crate::rules::{Placement, RuleTable};

/// One switch. It stores nothing durably: after a restart it has no rules.
#[derive(Debug)]
pub struct Switch {
    pub(super) name: SwitchName,
    /// The latest term (update number of the rules) that any order has had.
    term: Term,
    /// The term of the installed rules; `None` until the controller has sent some.
    pub(super) installed: Option<Term>,
    pub(super) table: RuleTable,
    /// The declarations of the programs that rules name.
    pub(super) programs: Programs,
    /// The rules that programs have inserted.
    pub(super) inserted: Inserted,
    /// Whether the runtime keeps copies current, to which rules scatter reads.
    keeps_copies: bool,
    /// Whether the runtime chooses the object for a destination that is a target or a pool.
    chooses_objects: bool,
    /// Whether some installed rule sends reads to another location than the object itself. If not,
    /// the switch need not remember which bytes are in the object itself.
    reads_go_away: bool,
    /// Whether some installed rule sends IO to the controller.
    pub(super) has_controller_rules: bool,
    /// Whether some installed rule sends IO to a waypoint.
    pub(super) has_waypoint_rules: bool,
    /// The previous term (the number of an update of the rules), and the headers whose IO the
    /// switch held when that term ended. An IO that another switch sent under that term may go on
    /// if it matches none of these headers, because its rules are still the same.
    previous: Option<(Term, Vec<Header>)>,
    /// The headers whose IO the switch holds.
    quiesced: Vec<Header>,
    pub(super) peers: Vec<SwitchName>,
    /// The greatest counter of a stamp that the switch has used or received.
    pub(super) counter: u64,
    pub(super) in_flight: InFlight,
    pub(super) waiting: Waiting,
    /// The tickets of drain orders that are not answered yet.
    draining: Vec<u64>,
    /// The bytes on which the switch has promised other switches to hold IO, by agreement.
    pub(super) prepared: BTreeMap<Stamp, (ObjectId, Vec<Span>)>,
    /// Agreements that have failed, each with the peers that have not confirmed this yet.
    pub(super) aborted: BTreeMap<Stamp, BTreeSet<SwitchName>>,
}

/// A header that matches every IO.
fn everything() -> Header {
    Header {
        source: SourceMatch::Any,
        operations: Operations::ALL,
        object: ObjectMatch::all(),
        span: Span::WHOLE,
        home: None,
    }
}

impl Switch {
    /// A switch that has started. It holds all IO until the controller sends its rules.
    pub fn new(name: SwitchName) -> Self {
        Self {
            name,
            term: Term::default(),
            installed: None,
            table: RuleTable::default(),
            programs: Programs::new(),
            inserted: Inserted::default(),
            keeps_copies: false,
            chooses_objects: false,
            reads_go_away: false,
            has_controller_rules: false,
            has_waypoint_rules: false,
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

    /// The same switch with a runtime that keeps copies current ([`Copies`](crate::Copies)). The
    /// runtime sends reads to current copies before they reach the switch. So a scattered read that
    /// reaches the switch goes home.
    #[must_use]
    pub fn with_current_copies(self) -> Self {
        Self { keeps_copies: true, ..self }
    }

    /// The same switch with a runtime that chooses the object for each write whose destination is a
    /// target or a pool, and reports it by [`Outcome::DoneAt`](super::Outcome::DoneAt). Two writes
    /// may get different objects, so the switch sends overlapping ones one after the other.
    #[must_use]
    pub fn with_chosen_objects(self) -> Self {
        Self { chooses_objects: true, ..self }
    }

    /// Whether the runtime chooses the object for this destination.
    pub(super) fn chooses_object(&self, destination: &Destination) -> bool {
        let leaves_choice = matches!(destination, Destination::Target(_) | Destination::Pool(_));
        self.chooses_objects && leaves_choice
    }

    /// Whether an IO with this destination goes to the object itself, or to a copy with its bytes.
    pub(super) fn is_home(&self, destination: &Destination) -> bool {
        match destination {
            Destination::Home
            | Destination::Bypass(_)
            | Destination::Versions(_)
            | Destination::Snapshots(_)
            | Destination::Erasure(_) => true,
            // What comes out of the waypoint goes there.
            Destination::Waypoint(_) => true,
            Destination::Scatter(_) => self.keeps_copies,
            _ => false,
        }
    }

    /// The rules of the switch.
    pub fn table(&self) -> &RuleTable {
        &self.table
    }

    /// The term of the installed rules; `None` until the controller has sent some.
    pub fn installed(&self) -> Option<Term> {
        self.installed
    }

    /// The declarations of the programs that rules name.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The greatest counter of a stamp that the switch has used or received.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// The bytes that a rule has placed at another target, and that the runtime must move back to
    /// the object before it performs this IO. `None` if the IO needs no such move.
    pub fn homeward(&self, io: IoId) -> Option<Span> {
        self.in_flight.get(io).and_then(|flying| flying.arrival.homeward)
    }

    /// Notes that the bytes of `span` are in `object` again. The caller ensures that no other IO on
    /// these bytes is in flight.
    pub fn brought_home(&mut self, object: &ObjectId, span: Span) {
        for placement in self.table.placed(object, span) {
            let placement = Placement { destination: Destination::Home, ..placement };
            self.place(&[Placed { object: object.clone(), placement }]);
        }
    }

    /// Whether an IO that changes bytes of an object is in flight or held.
    pub fn is_changing(&self, object: &ObjectId) -> bool {
        let changes = [Touch { operation: Operation::Read, span: Some(Span::WHOLE) }];
        self.in_flight.on(object).any(|flying| flying.is_in_the_way_of(&changes, None))
            || self.waiting.is_before(object, &changes)
    }

    /// How many IOs are in flight, and how many are held.
    pub fn load(&self) -> (usize, usize) {
        (self.in_flight.len(), self.waiting.len())
    }

    /// Processes an event, and returns the resulting commands. A late or repeated event does no
    /// harm.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Command> {
        match event {
            Event::Arrived { io, request, via, home, term } => {
                let touches = touches(&request);
                let arrival = Arrival { via, home, term, ..Arrival::new(io, request, touches) };
                self.admit(now, arrival)
            }
            Event::ArrivedHomeward { io, request, span, via, home } => {
                let touches = vec![Touch { operation: Operation::Write, span: Some(span) }];
                let homeward = Some(span);
                let arrival = Arrival { via, homeward, home, ..Arrival::new(io, request, touches) };
                self.admit(now, arrival)
            }
            Event::PieceDone { io, piece, outcome } => self.piece_done(now, io, piece, &outcome),
            Event::ControllerAnswered { io, object, answer } => {
                self.controller_answered(now, io, &object, answer)
            }
            Event::WaypointAnswered { io, object, layer, answer } => {
                self.waypoint_answered(now, io, &object, layer, answer)
            }
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

    /// Starts an IO, or holds it.
    fn admit(&mut self, now: Duration, arrival: Arrival) -> Vec<Command> {
        if self.is_held(&arrival) {
            return self.hold(arrival);
        }
        self.launch(now, arrival)
    }

    pub(super) fn hold(&mut self, arrival: Arrival) -> Vec<Command> {
        if self.waiting.len() >= MAX_HELD_IOS {
            let error = Error::exhausted(format!(
                "the switch already holds {MAX_HELD_IOS} IOs, the most it can"
            ))
            .on(&arrival.request.header.object)
            .hint("try again when the rules have changed or requests are done");
            return vec![refuse(arrival.io, error)];
        }
        self.waiting.push_back(arrival);
        vec![]
    }

    fn is_held(&self, arrival: &Arrival) -> bool {
        if self.installed.is_none() {
            return true;
        }
        // IO that another switch or a layer has sent is in flight already, and a drain waits until
        // it is done. If this switch held it, the drain would never end.
        let begins_here = arrival.term.is_none() && arrival.via.is_none();
        if begins_here && self.quiesced.iter().any(|header| is_about(header, arrival)) {
            return true;
        }
        // IO from a layer belongs to an IO that is already in flight at this switch, so it need not
        // wait for other IO.
        let object = &arrival.request.header.object;
        arrival.via.is_none()
            && (self.is_promised(arrival) || self.waiting.is_before(object, &arrival.touches))
    }

    /// Whether this switch may handle an IO that another switch sent under the rules of `term`. It
    /// may if the rules for this IO are still the same. A drain waits for all such IO, so only IO
    /// of a switch that has died can come too late.
    pub(super) fn knows(&self, term: Term, arrival: &Arrival) -> bool {
        let is_unchanged =
            |held: &Vec<Header>| !held.iter().any(|header| is_about(header, arrival));
        self.installed == Some(term)
            || self.previous.as_ref().is_some_and(|(t, held)| *t == term && is_unchanged(held))
    }

    /// Notes where the newest bytes of objects are.
    pub(super) fn place(&mut self, placed: &[Placed]) {
        for Placed { object, placement } in placed {
            // The table has room, because it was reserved when the write began.
            match placement.destination == Destination::Home && !self.reads_go_away {
                true => self.table.forget(object, placement.span),
                false => {
                    let _ = self.table.place(object, placement.clone());
                }
            }
        }
    }

    /// Lets the held IO on an object go on, as far as possible.
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
                    let mut known: HashSet<_> = self.quiesced.iter().cloned().collect();
                    let new = headers.into_iter().filter(|header| known.insert(header.clone()));
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

    /// Answers the drain orders once no IO with a quiesced header is in flight.
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
        self.reads_go_away = table.sends_reads_away(|destination| self.is_home(destination));
        let asks = |rule: &Rule| matches!(rule.destination, Destination::Controller(_));
        self.has_controller_rules = table.rules().any(|(_, rule)| asks(rule));
        let passes = |rule: &Rule| matches!(rule.destination, Destination::Waypoint(_));
        self.has_waypoint_rules = table.rules().any(|(_, rule)| passes(rule));
        self.keep_inserted(&table, &rules.programs);
        self.table = table;
        self.programs = rules.programs;
        self.previous = self.installed.map(|installed| (installed, self.quiesced.clone()));
        self.installed = Some(term);
        self.counter = self.counter.max(term.first_counter());
        self.peers = rules.peers;
        // The controller has located the bytes, so these agreements no longer matter.
        self.prepared.clear();
        self.aborted.clear();
        Ok(())
    }

    fn tick(&mut self, now: Duration) -> Vec<Command> {
        if self.installed.is_none() {
            return vec![Command::Join];
        }
        let mut commands = self.remind_peers();
        commands.extend(self.release_all(now));
        commands
    }
}

/// Answers an IO with an error.
pub(super) fn refuse(io: IoId, error: Error) -> Command {
    Command::Refuse { io, error: RefusedIo(error.during("route")) }
}
