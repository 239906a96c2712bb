//! The events that a switch processes and the commands that it returns.

use std::sync::Arc;

use nacre_object::{ApplicationName, Error, ObjectId, ProgramName, Request, TargetName};

use super::{Stamp, Term};
use crate::model::{
    Ask, Destination, Header, Io, LayerName, Options, Programs, Rule, RuleId, Span, SwitchName,
};
use crate::plan::PieceOps;
use crate::rules::Placement;

/// The number of an IO at one switch. The runtime uses each number once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId(pub u64);

/// The result of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has succeeded and is durable.
    Done,
    /// It has succeeded and is durable. The rule left the choice of the object to the runtime, and
    /// this is what the runtime chose ([`Switch::with_chosen_objects`](super::Switch)).
    DoneAt(Destination),
    /// It has failed, or it is unknown whether it happened.
    Failed,
    /// The endpoint has refused it, because it has a newer change with this stamp.
    Outrun(Stamp),
}

/// The rules of one switch, as the controller sends them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchRules {
    /// The rules, in the order of installation.
    pub insertions: Vec<Vec<Rule>>,
    /// The declarations of the programs that rules name.
    pub programs: Programs,
    /// Where the newest bytes are, for objects whose reads follow writes.
    pub placed: Vec<Placed>,
    /// The other switches, with which this one must agree on where bytes are.
    pub peers: Vec<SwitchName>,
}

/// Where the newest bytes of an object are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The object.
    pub object: ObjectId,
    /// The bytes, and where they are.
    pub placement: Placement,
}

/// A question to a route program: where do these bytes go?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAsk {
    /// The program.
    pub program: ProgramName,
    /// The version whose declaration the switch has.
    pub version: u64,
    /// The rule that names the program.
    pub rule: RuleId,
    /// The header of that rule. The program may insert rules only for IO that it matches.
    pub header: Header,
    /// The IO.
    pub io: Io,
}

/// A question to the controller: an IO waits for a rule of this application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerAsk {
    /// The application whose rule sends the IO to the controller.
    pub application: ApplicationName,
    /// That rule.
    pub rule: RuleId,
    /// Whether the controller gets only the header, or the data too.
    pub ask: Ask,
    /// The IO.
    pub io: Io,
}

/// A question to a waypoint: may this IO come now?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaypointAsk {
    /// The waypoint.
    pub layer: LayerName,
    /// The rule that sends the IO there.
    pub rule: RuleId,
    /// The IO.
    pub io: Io,
    /// How many bytes the request reads and writes.
    pub bytes: u64,
}

/// The answer to a [`ProgramAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramDecision {
    /// The rule in the question.
    pub rule: RuleId,
    /// The bytes in the question.
    pub span: Option<Span>,
    /// Where the bytes go.
    pub destination: Destination,
    /// The changes of rules that the program makes, in this order.
    pub changes: Vec<RuleChange>,
}

/// A change of rules by a program (`Insert` and `Delete` in the sRoute paper, table 2).
///
/// An inserted rule comes directly before the rule that names the program. So it decides only about
/// bytes about which the program would decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleChange {
    /// From now on IO with this header goes to this destination, and the program is not asked about
    /// it.
    Insert {
        /// The header.
        header: Header,
        /// The destination.
        destination: Destination,
    },
    /// Removes the rules with this header that the program has inserted.
    Delete(Header),
}

/// An order of the controller: one step of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Hold new IO with these headers.
    Quiesce(Vec<Header>),
    /// Answer when no IO with a quiesced header is in flight.
    Drain,
    /// Replace all rules by these.
    Install(SwitchRules),
    /// Let the held IO go on.
    Resume,
}

/// The answer to an [`Order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderAnswer {
    /// The step is done.
    Done,
    /// Refused: the switch has received an order of this later term (update number of the rules).
    Stale(Term),
    /// The switch cannot resume: it has restarted and has no rules.
    NotInstalled,
    /// The rules and the notes about newest bytes do not fit into the switch. The switch has
    /// changed nothing, and still holds new IO.
    Full,
}

/// A request from one switch to another about an agreement. The sender repeats the request until it
/// gets an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerQuestion {
    /// Will you hold IO on these bytes until the agreement ends?
    Prepare {
        /// The term whose rules the asking switch has.
        term: Term,
        /// The object.
        object: ObjectId,
        /// The bytes.
        spans: Vec<Span>,
    },
    /// The bytes are at their new destinations. Their stamps have this counter at most.
    Commit {
        /// Where the bytes are.
        placed: Vec<Placed>,
        /// The counter of the asking switch.
        counter: u64,
    },
    /// The write has failed, so the bytes stay where they are.
    Abort,
    /// Is this agreement, which you began, still in progress?
    IsLive,
}

/// The answer to a [`PeerQuestion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAnswer {
    /// Yes, IO on these bytes is held.
    Prepared {
        /// The counter of the answering switch.
        counter: u64,
    },
    /// No: rules are changing, or other IO on these bytes is in flight.
    NotNow,
    /// The switch has done what was asked. To `IsLive`: yes, it is in progress.
    Done,
    /// To `IsLive`: no, and every switch has been told the result.
    Ended,
}

/// An event that the runtime passes to the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An IO has arrived.
    Arrived {
        /// The number of the IO.
        io: IoId,
        /// The request.
        request: Arc<Request>,
        /// The layer that sent it, if a layer did.
        via: Option<LayerName>,
        /// The target that holds the object. It is needed only if some rule names a home.
        home: Option<TargetName>,
        /// The term (update number of the rules) under which another switch forwarded the IO to
        /// this switch; `None` if the IO comes from no other switch.
        term: Option<Term>,
    },
    /// An IO has arrived that goes to the object itself, regardless of the rules. The runtime first
    /// moves the bytes of `span` back to the object. Meanwhile the switch holds other IO on these
    /// bytes.
    ArrivedHomeward {
        /// The number of the IO.
        io: IoId,
        /// The request.
        request: Arc<Request>,
        /// The bytes to bring home.
        span: Span,
        /// The layer that sent it, if a layer did.
        via: Option<LayerName>,
        /// The target that holds the object. It is needed only if some rule names a home.
        home: Option<TargetName>,
    },
    /// A piece has succeeded, failed or was refused.
    PieceDone {
        /// The IO.
        io: IoId,
        /// The index of the piece in the plan.
        piece: usize,
        /// The result.
        outcome: Outcome,
    },
    /// The controller has made rules about an IO that asked for it, and this switch has installed
    /// them. Or the controller cannot make any.
    ControllerAnswered {
        /// The IO.
        io: IoId,
        /// Its object.
        object: ObjectId,
        /// The error with which the IO fails, if there are no rules.
        answer: Result<(), RefusedIo>,
    },
    /// A waypoint has admitted an IO, or refuses it.
    WaypointAnswered {
        /// The IO.
        io: IoId,
        /// Its object.
        object: ObjectId,
        /// The waypoint.
        layer: LayerName,
        /// The error with which the IO fails, if it does.
        answer: Result<(), RefusedIo>,
    },
    /// Programs have decided where the bytes of an IO go, or one of them has failed.
    ProgramsDecided {
        /// The IO.
        io: IoId,
        /// Its object.
        object: ObjectId,
        /// The term under which the programs were asked.
        term: Term,
        /// The decisions, or the error with which the IO fails.
        decided: Result<Vec<ProgramDecision>, RefusedIo>,
    },
    /// The controller has given an order.
    Ordered {
        /// A number that the answer must carry.
        ticket: u64,
        /// The term of the update.
        term: Term,
        /// The order.
        order: Order,
    },
    /// Another switch asks a question.
    PeerAsked {
        /// A number that the answer must carry.
        ticket: u64,
        /// The agreement.
        agreement: Stamp,
        /// The question.
        question: PeerQuestion,
    },
    /// Another switch has answered a question, or no answer came in time.
    PeerAnswered {
        /// The other switch.
        peer: SwitchName,
        /// The agreement.
        agreement: Stamp,
        /// The question.
        question: PeerQuestion,
        /// The answer; `None` if none came.
        answer: Option<PeerAnswer>,
    },
    /// Time has passed. The runtime sends this several times a second.
    Tick,
}

/// What the runtime must do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Send a piece.
    Forward {
        /// The IO.
        io: IoId,
        /// The index of the piece in the plan.
        piece: usize,
        /// The term of the plan. The next switch uses the rules of the same term.
        term: Term,
        /// The rule that decides; `None` if no rule matches.
        rule: Option<RuleId>,
        /// The destination; `None` to continue to where the IO was going.
        destination: Option<Destination>,
        /// The options of the rule.
        options: Options,
        /// The ops of the piece.
        ops: PieceOps,
        /// The stamp of a change; `None` for a read.
        stamp: Option<Stamp>,
    },
    /// Ask the controller for rules about an IO. The IO waits meanwhile.
    AskController {
        /// The IO.
        io: IoId,
        /// One question for each part of the IO.
        asks: Vec<ControllerAsk>,
    },
    /// Ask a waypoint whether an IO may come now. The IO waits meanwhile.
    AskWaypoint {
        /// The IO.
        io: IoId,
        /// The question.
        ask: WaypointAsk,
    },
    /// Ask programs where the bytes of an IO go. The IO waits meanwhile.
    AskPrograms {
        /// The IO.
        io: IoId,
        /// The term of the rules that name the programs.
        term: Term,
        /// The questions.
        asks: Vec<ProgramAsk>,
    },
    /// All pieces are done: join their replies and answer the IO.
    Finish {
        /// The IO.
        io: IoId,
    },
    /// Answer an IO with an error.
    Refuse {
        /// The IO.
        io: IoId,
        /// The error.
        error: RefusedIo,
    },
    /// Answer the controller.
    AnswerOrder {
        /// The ticket of the order.
        ticket: u64,
        /// The answer.
        answer: OrderAnswer,
    },
    /// Ask another switch.
    AskPeer {
        /// The other switch.
        peer: SwitchName,
        /// The agreement.
        agreement: Stamp,
        /// The question.
        question: PeerQuestion,
    },
    /// Answer another switch.
    AnswerPeer {
        /// The ticket of the question.
        ticket: u64,
        /// The answer.
        answer: PeerAnswer,
    },
    /// Ask the controller for rules, because the switch has started and has none.
    Join,
}

/// The error with which an IO is refused. Two errors are equal if their messages are.
#[derive(Debug, Clone)]
pub struct RefusedIo(pub Error);

impl Eq for RefusedIo {}

impl PartialEq for RefusedIo {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}
