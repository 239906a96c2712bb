//! `Core`: the pure switch of a node, and what the runtime keeps about the IO in flight. It carries
//! out the commands of the pure switch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nacre_object::ObjectId;
use nacre_route::{
    Command, Copies, Destination, Event, FastHashMap, IoId, OrderAnswer, Piece, PieceOps,
    PieceReply, RuleId, RuleTable, Span, Switch,
};
use tokio::sync::oneshot;

use super::direct::Permitted;
use super::homes::Homes;
use super::live_io::Live;
use super::pieces::{PieceWork, span_of};
use super::routed_locations::RoutedLocation;
use super::snapshots::SnapshotRules;
use super::spreader::Push;
use super::tally::Tally;
use super::work::Work;

/// The state that each IO may change.
pub(super) struct Core {
    pub switch: Switch,
    pub live: FastHashMap<IoId, Live>,
    pub orders: HashMap<u64, oneshot::Sender<OrderAnswer>>,
    pub tally: Tally,
    pub homes: Homes,
    pub permitted: Permitted,
    pub kept: SnapshotRules,
    /// The part of an object that the spreader moves at present.
    pub push: Option<Push>,
    /// The copies of this target's objects on other targets.
    pub copies: Copies,
    /// Writes that may have arrived at a place where reads do not look for them.
    pub doubts: Vec<Doubt>,
}

/// A write to another node, which did not answer. So it is unknown whether the bytes arrived there.
/// The newest bytes are elsewhere, so bytes that did arrive must be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub object: ObjectId,
    pub span: Span,
    pub place: RoutedLocation,
    pub counter: u64,
}

impl Core {
    pub fn new(switch: Switch, copies: Copies) -> Self {
        Self {
            switch,
            live: FastHashMap::default(),
            orders: HashMap::new(),
            tally: Tally::default(),
            homes: Homes::default(),
            permitted: Permitted::default(),
            kept: SnapshotRules::default(),
            push: None,
            copies,
            doubts: vec![],
        }
    }

    /// Passes an event to the pure switch, and returns the work that has to wait for a store, a
    /// node or a program.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Work> {
        let commands = self.switch.handle(now, event);
        self.obey(commands)
    }

    /// Carries out commands of the pure switch, and returns the work that has to wait for a store,
    /// a node or a program.
    pub fn obey(&mut self, commands: Vec<Command>) -> Vec<Work> {
        self.count_decisions(&commands);
        commands.into_iter().filter_map(|command| self.take(command)).collect()
    }

    /// Whether the only command sends an undivided IO to its own object, and no byte of the object
    /// is or may be elsewhere.
    pub fn only_goes_home(&self, object: &ObjectId, commands: &[Command]) -> bool {
        let [Command::Forward { destination, ops: PieceOps::All, .. }] = commands else {
            return false;
        };
        let stays = |to: &Destination| {
            matches!(
                to,
                Destination::Home
                    | Destination::Bypass(_)
                    | Destination::Versions(_)
                    | Destination::Snapshots(_)
                    | Destination::Erasure(_)
            )
        };
        destination.as_ref().is_none_or(stays)
            && self.doubts.is_empty()
            && self.kept.about(object).is_none()
            && self.table().made_over(object, Span::WHOLE).is_none()
    }

    /// Counts the rules that have decided about the pieces that the commands send.
    pub fn count_decisions(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::Forward { rule: Some(rule), .. } = command {
                self.tally.decided(*rule, self.switch.table());
            }
        }
    }

    /// Counts a decision of a rule about a request that is not one IO of the pure switch.
    pub fn note_decided(&mut self, rule: RuleId) {
        self.tally.decided(rule, self.switch.table());
    }

    /// The switch admits a change of an object.
    pub fn note_change(&mut self, object: &ObjectId) {
        if let Some(push) = &mut self.push {
            push.note_change(object);
        }
    }

    /// Whether an IO moves bytes away from home that nobody has changed.
    pub fn is_push(&self, io: IoId) -> bool {
        self.push.as_ref().is_some_and(|push| push.is_write(io))
    }

    /// Keeps the reply to a piece until the IO has all its replies.
    pub(super) fn keep_reply(&mut self, io: IoId, piece: usize, reply: PieceReply) {
        if let Some(live) = self.live.get_mut(&io)
            && let Some(Some((_, kept))) = live.pieces.get_mut(piece)
        {
            *kept = Some(reply);
        }
    }

    pub(super) fn table(&self) -> &RuleTable {
        self.switch.table()
    }

    /// The end of an object's last byte that lies elsewhere; 0 if none does.
    pub(super) fn routed_end(&self, object: &ObjectId) -> u64 {
        let placed = self.table().placed(object, Span::WHOLE);
        placed.last().map_or(0, |placement| placement.span.end())
    }

    /// Carries out a command of the pure switch. Returns work that must wait for a store or another
    /// node.
    fn take(&mut self, command: Command) -> Option<Work> {
        match command {
            Command::Forward { io, piece, rule, destination, ops, stamp, .. } => {
                let request = Arc::clone(&self.live.get(&io)?.request);
                let object = &request.header.object;
                let span = if let [op] = ops.of(&request) { span_of(op) } else { None };
                let placed = self.table().placed(object, span.unwrap_or(Span::WHOLE));
                let application = rule
                    .and_then(|rule| self.table().get(rule))
                    .map(|rule| rule.application.clone())
                    .or_else(|| placed.first().map(|placement| placement.application.clone()));
                let (counter, routed_end) = (self.switch.counter(), self.routed_end(object));
                let homeward = self.switch.homeward(io);
                let live = self.live.get_mut(&io)?;
                live.routed_end = live.routed_end.max(routed_end);
                if live.pieces.len() <= piece {
                    live.pieces.resize_with(piece + 1, || None);
                }
                live.pieces[piece] = Some((Piece { span, rule, ops: ops.clone() }, None));
                Some(Work::Piece(Box::new(PieceWork {
                    io,
                    piece,
                    request,
                    next: live.next.clone(),
                    destination,
                    ops,
                    counter: stamp.map_or(counter, |stamp| stamp.counter),
                    homeward,
                    placed,
                    application,
                    passed: live.passed,
                })))
            }
            Command::AskPrograms { io, term, asks } => Some(Work::Programs { io, term, asks }),
            Command::AskWaypoint { io, ask } => Some(Work::Waypoint { io, ask: Box::new(ask) }),
            Command::AskController { io, asks } => {
                for ask in &asks {
                    self.note_decided(ask.rule);
                }
                let object = self.live.get(&io)?.request.header.object.clone();
                Some(Work::Controller { io, object, asks })
            }
            Command::Finish { io } => {
                let live = self.live.remove(&io)?;
                self.tally.finished(live.pieces.len());
                let reply = live.joined();
                // The client may have given up.
                let _ = live.reply.send(reply);
                None
            }
            Command::Refuse { io, error } => {
                let live = self.live.remove(&io)?;
                let _ = live.reply.send(Err(error.0));
                None
            }
            Command::AnswerOrder { ticket, answer } => {
                let order = self.orders.remove(&ticket)?;
                let _ = order.send(answer);
                None
            }
            // The node's own task gives the switch its rules. The switch need not ask for them.
            Command::Join => None,
            // Rules that would lead to these commands are refused before they are stored.
            Command::AskPeer { .. } | Command::AnswerPeer { .. } => None,
        }
    }
}
