//! Handles one IO: plans it, sends its pieces, and answers it when all pieces are done.

use std::time::Duration;

use nacre_object::{Error, Result};

use super::core::refuse;
use super::in_flight::{Flying, Progress, Sent};
use super::programs::Part;
use super::waiting::Arrival;
use super::{
    Command, ControllerAsk, IoId, Outcome, Placed, ProgramAsk, Stamp, Switch, Term, WaypointAsk,
};
use crate::limits::{MAX_IN_FLIGHT_IOS, MAX_RULES};
use crate::model::{
    ApplicationName, Destination, Follow, LayerName, Operation, Options, Replies, RuleId, Span,
    Touch,
};
use crate::plan::{Piece, PieceOps, plan};
use crate::rules::{Placement, RuleTable};

/// The result of planning an IO.
enum Planned {
    /// It can be sent.
    Ready(Term, Vec<Sent>),
    /// The switch must ask programs first.
    Asks(Vec<ProgramAsk>),
    /// The controller must make rules first.
    AsksController(Vec<ControllerAsk>),
    /// A waypoint must admit it first.
    AsksWaypoint(Box<WaypointAsk>),
}

impl Switch {
    /// Plans an IO and sends its pieces. If the IO must wait for a program or for overlapping IO,
    /// the switch holds it.
    pub(super) fn launch(&mut self, now: Duration, arrival: Arrival) -> Vec<Command> {
        let (term, sent) = match self.planned(&arrival) {
            Ok(Planned::Ready(term, sent)) => (term, sent),
            Ok(Planned::Asks(asks)) => return self.ask_programs(arrival, asks),
            Ok(Planned::AsksController(asks)) => return self.ask_controller(now, arrival, asks),
            Ok(Planned::AsksWaypoint(ask)) => return self.ask_waypoint(now, arrival, *ask),
            Err(error) => return vec![refuse(arrival.io, error)],
        };
        let io = arrival.io;
        let flying = Flying { arrival, term, sent, agreement: None };
        let spans = self.agreed_spans(&flying);
        if flying.arrival.via.is_none() && self.is_in_the_way(&flying, &spans) {
            return self.hold(flying.arrival);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT_IOS {
            let error = Error::exhausted(format!(
                "the switch already has {MAX_IN_FLIGHT_IOS} IOs in flight, the most it can"
            ));
            let object = &flying.arrival.request.header.object;
            let error = error.on(object).hint("try again when requests are done");
            return vec![refuse(io, error)];
        }
        self.in_flight.insert(flying);
        match spans.is_empty() {
            true => self.send(now, io),
            false => self.begin_agreement(io, spans),
        }
    }

    /// Whether other IO in flight must finish before this one may begin.
    fn is_in_the_way(&self, flying: &Flying, agreed: &[Span]) -> bool {
        let way = if agreed.is_empty() { flying.way() } else { None };
        let Arrival { request, touches, .. } = &flying.arrival;
        let mut others = self.in_flight.on(&request.header.object);
        others.any(|other| other.is_in_the_way_of(touches, way))
    }

    fn planned(&self, arrival: &Arrival) -> Result<Planned> {
        let Some(term) = arrival.term.or(self.installed) else {
            return Err(Error::unavailable("the switch has no rules yet").hint("try again"));
        };
        if !self.knows(term, arrival) {
            return Err(Error::stale("the IO was sent under rules that have changed since")
                .hint("send it again"));
        }
        let table = &self.table;
        let asks = self.controller_asks(arrival)?;
        if !asks.is_empty() {
            return Ok(Planned::AsksController(asks));
        }
        if let Some(span) = arrival.homeward {
            let waypoint = self.waypoint_of_whole(arrival)?;
            let sent = homeward(table, arrival, span, waypoint);
            let ask = self.waypoint_ask(arrival, sent.piece.rule, sent.destination.as_ref());
            return Ok(match ask {
                Some(ask) => Planned::AsksWaypoint(Box::new(ask)),
                None => Planned::Ready(term, vec![sent]),
            });
        }
        let plan = plan(table, &arrival.request, arrival.via.as_ref(), arrival.home.as_ref())?;
        let (mut sent, mut asks) = (vec![], vec![]);
        for piece in plan.pieces {
            for part in self.parts(arrival, piece)? {
                match part {
                    Part::Goes(piece, to) => {
                        if let Some(ask) = self.waypoint_ask(arrival, piece.rule, to.as_ref()) {
                            return Ok(Planned::AsksWaypoint(Box::new(ask)));
                        }
                        sent.push(self.sent(table, arrival, piece, to)?);
                    }
                    Part::Asks(ask) => asks.push(ask),
                }
            }
        }
        if !asks.is_empty() {
            return Ok(Planned::Asks(asks));
        }
        let follows: usize = sent.iter().map(|sent| sent.follows.len()).sum();
        let new_rules = 2 * (follows + self.in_flight.follows());
        if follows > 0 && self.table.len() + new_rules + 2 > MAX_RULES {
            return Err(Error::exhausted(
                "the switch has no room for another rule, so reads could not follow this write",
            )
            .on(&arrival.request.header.object)
            .hint("bring routed bytes home: nacre route rm APPLICATION"));
        }
        Ok(Planned::Ready(term, sent))
    }

    fn sent(
        &self,
        table: &RuleTable,
        arrival: &Arrival,
        piece: Piece,
        destination: Option<Destination>,
    ) -> Result<Sent> {
        let rule = piece.rule.and_then(|rule| table.get(rule));
        let options = rule.map_or(Options::default(), |rule| rule.options);
        let changes = arrival.touches.iter().filter(|touch| touch.operation.is_change());
        let object = &arrival.request.header.object;
        let mut follows = vec![];
        let is_direct = options.replies == Replies::Direct;
        // Where the bytes of an IO end that passes a waypoint, the IO decides that comes out of it.
        let passes = matches!(destination, Some(Destination::Waypoint(_)));
        for touch in changes.filter(|_| !passes) {
            let is_followed = options.follow != Follow::No || self.is_placed(table, arrival, touch);
            if !is_followed {
                continue;
            }
            if is_direct {
                return Err(Error::unsupported(
                    "reads follow this write, so its reply must pass the switch",
                )
                .on(object)
                .hint("leave reply-direct out of the rule"));
            }
            let (Operation::Write, Some(span)) = (touch.operation, touch.span) else {
                return Err(Error::unsupported(
                    "reads can follow only writes of bytes, and this request changes something else",
                )
                .on(object)
                .hint("bring the object home first"));
            };
            let span = piece.span.map_or(Some(span), |own| own.intersect(span));
            let destination = destination.clone().unwrap_or(Destination::Home);
            let application = rule.map(|rule| rule.application.clone());
            let application = application.or_else(|| self.placed_by(table, arrival, touch));
            if let (Some(span), Some(application)) = (span, application) {
                let placement = Placement { span, destination, application };
                follows.push(Placed { object: object.clone(), placement });
            }
        }
        let has_fixed_endpoint =
            !passes && !destination.as_ref().is_some_and(|to| self.chooses_object(to));
        let progress = Progress::Waiting;
        Ok(Sent { piece, destination, options, follows, has_fixed_endpoint, progress })
    }

    /// Whether the switch has noted a location for some bytes that this IO changes. If so, reads
    /// must follow this change too.
    fn is_placed(&self, table: &RuleTable, arrival: &Arrival, touch: &Touch) -> bool {
        self.placed_by(table, arrival, touch).is_some()
    }

    fn placed_by(
        &self,
        table: &RuleTable,
        arrival: &Arrival,
        touch: &Touch,
    ) -> Option<ApplicationName> {
        let made = table.made_over(&arrival.request.header.object, touch.span?);
        made.map(|rule| rule.application.clone())
    }

    /// The bytes of an IO on whose new location the switches must agree.
    fn agreed_spans(&self, flying: &Flying) -> Vec<Span> {
        if self.peers.is_empty() {
            return vec![];
        }
        let is_local = |sent: &&Sent| sent.options.follow != Follow::Here;
        let sent = flying.sent.iter().filter(is_local);
        sent.flat_map(|sent| &sent.follows).map(|placed| placed.placement.span).collect()
    }

    /// Sends all pieces of an IO.
    pub(super) fn send(&mut self, now: Duration, io: IoId) -> Vec<Command> {
        let Some(flying) = self.in_flight.get(io) else { return vec![] };
        let mut commands = vec![];
        let count = flying.sent.len();
        let is_direct = |sent: &Sent| sent.options.replies == Replies::Direct;
        let is_unseen = flying.sent.iter().all(is_direct);
        for piece in 0..count {
            commands.extend(self.forward(io, piece));
        }
        if is_unseen && let Some(flying) = self.in_flight.remove(io) {
            // The reply bypasses this switch, so the IO is not tracked any more.
            commands.extend(self.release(now, &flying.arrival.request.header.object));
        }
        commands
    }

    /// Sends one piece.
    fn forward(&mut self, io: IoId, piece: usize) -> Option<Command> {
        self.counter += 1;
        let flying = self.in_flight.get_mut(io)?;
        let term: Term = flying.term;
        let sent = flying.sent.get_mut(piece)?;
        if !matches!(sent.progress, Progress::Waiting | Progress::Out) {
            return None;
        }
        sent.progress = Progress::Out;
        let ops = sent.piece.ops.of(&flying.arrival.request);
        let is_change = ops.iter().any(nacre_object::Op::is_write);
        let own = || Stamp { counter: self.counter, switch: self.name.clone() };
        Some(Command::Forward {
            io,
            piece,
            term,
            rule: sent.piece.rule,
            destination: sent.destination.clone(),
            options: sent.options,
            ops: sent.piece.ops.clone(),
            stamp: is_change.then(own),
        })
    }

    pub(super) fn piece_done(
        &mut self,
        now: Duration,
        io: IoId,
        piece: usize,
        outcome: &Outcome,
    ) -> Vec<Command> {
        if let Outcome::Outrun(stamp) = outcome {
            self.counter = self.counter.max(stamp.counter);
            return self.forward(io, piece).into_iter().collect();
        }
        let Some(flying) = self.in_flight.get_mut(io) else { return vec![] };
        let Some(sent) = flying.sent.get_mut(piece) else { return vec![] };
        sent.progress = match outcome {
            Outcome::Done => Progress::Done,
            Outcome::DoneAt(destination) => {
                sent.went_to(destination);
                Progress::Done
            }
            Outcome::Failed | Outcome::Outrun(_) => Progress::Failed,
        };
        self.settle(now, io)
    }

    /// Ends an IO when all its pieces have succeeded or failed.
    fn settle(&mut self, now: Duration, io: IoId) -> Vec<Command> {
        let Some(flying) = self.in_flight.get_mut(io) else { return vec![] };
        if !flying.is_settled() {
            return vec![];
        }
        let done = flying.sent.iter().filter(|sent| sent.progress == Progress::Done);
        let placed: Vec<_> = done.flat_map(|sent| sent.follows.iter().cloned()).collect();
        let has_agreement = flying.agreement.is_some();
        self.place(&placed);
        match has_agreement {
            true => self.end_agreement(now, io, placed),
            false => self.finish(now, io),
        }
    }

    /// Answers an IO, and lets the IO that waits for it go on.
    pub(super) fn finish(&mut self, now: Duration, io: IoId) -> Vec<Command> {
        let Some(flying) = self.in_flight.remove(io) else { return vec![] };
        let mut commands = vec![Command::Finish { io }];
        commands.extend(self.release(now, &flying.arrival.request.header.object));
        commands
    }
}

/// The only piece of an IO that goes to the object that the client named, regardless of the rules.
/// When it is done, the switch notes that the bytes of `span` are there. If it passes a waypoint
/// first, the IO that comes out of the waypoint does all that.
fn homeward(
    table: &RuleTable,
    arrival: &Arrival,
    span: Span,
    waypoint: Option<(RuleId, LayerName)>,
) -> Sent {
    let object = &arrival.request.header.object;
    let placed = table.placed(object, span).into_iter();
    let home = |placement: Placement| Placed {
        object: object.clone(),
        placement: Placement { destination: Destination::Home, ..placement },
    };
    let follows = placed.filter(|_| waypoint.is_none()).map(home).collect();
    let (has_fixed_endpoint, progress) = (waypoint.is_none(), Progress::Waiting);
    let (rule, layer) = waypoint.unzip();
    let piece = Piece { span: None, rule, ops: PieceOps::All };
    let (destination, options) = (layer.map(Destination::Waypoint), Options::default());
    Sent { piece, destination, options, follows, has_fixed_endpoint, progress }
}
