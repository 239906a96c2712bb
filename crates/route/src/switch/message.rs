//! What switches hear and say.

use nacre_object::{Error, ObjectId, Op, ProgramName, Request};

use super::{Stamp, Term};
use crate::model::{
    Ask, Destination, Header, Io, LayerName, Options, Programs, Rule, RuleId, Span, SwitchName,
};
use crate::rules::Placement;

/// An IO at one switch, as the runtime numbers it. No number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId(pub u64);

/// What came of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, durably.
    Done,
    /// It failed, or nobody knows whether it happened.
    Failed,
    /// The endpoint has a newer change, with this stamp.
    Outrun(Stamp),
}

/// The rules of one switch, as the controller tells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchRules {
    /// Insertions, in their order.
    pub insertions: Vec<Vec<Rule>>,
    /// What the programs declare that rules name.
    pub programs: Programs,
    /// Where the newest bytes are, of objects whose reads follow writes.
    pub placed: Vec<Placed>,
    /// The switches with which this one agrees on where bytes are.
    pub peers: Vec<SwitchName>,
}

/// Where the newest bytes of an object are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The object.
    pub object: ObjectId,
    /// Which bytes, and where.
    pub placement: Placement,
}

/// A question to a program: where do these bytes go?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAsk {
    /// Which program.
    pub program: ProgramName,
    /// The version that the switch goes by.
    pub version: u64,
    /// The rule that names it.
    pub rule: RuleId,
    /// The header of that rule. The program may only insert rules about a part of it.
    pub header: Header,
    /// The IO.
    pub io: Io,
}

/// The answer to a [`ProgramAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramDecision {
    /// The rule of the question.
    pub rule: RuleId,
    /// The bytes of the question.
    pub span: Option<Span>,
    /// Where they go.
    pub destination: Destination,
    /// What the program changes besides, in this order.
    pub changes: Vec<RuleChange>,
}

/// A change of the rules by a program (`Insert` and `Delete` of the sRoute paper, table 2).
///
/// A rule that a program inserts stands right before the rule that names the program. So it decides
/// only about bytes about which the program would decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleChange {
    /// From now on IO of this header goes to this destination, and the program is not asked.
    Insert {
        /// Which IO.
        header: Header,
        /// Where to.
        destination: Destination,
    },
    /// The rules that the program inserted with this header end.
    Delete(Header),
}

/// A step of an update, from the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Hold new IO of these headers.
    Quiesce(Vec<Header>),
    /// Answer when no IO of the quiesced headers is in flight.
    Drain,
    /// Take these rules in place of all others.
    Install(SwitchRules),
    /// Let IO go on.
    Resume,
}

/// The answer to an [`Order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderAnswer {
    /// The step is done.
    Done,
    /// The switch has heard of a later term.
    Stale(Term),
    /// The switch cannot go on, because it has restarted and has no rules.
    NotInstalled,
    /// The rules and the notes of where newest bytes are do not fit into the switch. The switch has
    /// changed nothing, and holds IO.
    Full,
}

/// A question of a switch to another one about an agreement. The switch may repeat the question
/// until it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerQuestion {
    /// Will you hold IO on these bytes until you hear more?
    Prepare {
        /// Under whose rules.
        term: Term,
        /// The object.
        object: ObjectId,
        /// The bytes.
        spans: Vec<Span>,
    },
    /// The bytes are in their new places. The counter is that of their stamp.
    Commit {
        /// Where they are.
        placed: Vec<Placed>,
        /// The counter of the asker.
        counter: u64,
    },
    /// The bytes stay where they are.
    Abort,
    /// Is this agreement, which you began, still under way?
    IsLive,
}

/// The answer to a [`PeerQuestion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAnswer {
    /// IO on these bytes is held. The counter is the peer's.
    Prepared {
        /// The counter.
        counter: u64,
    },
    /// Not now: rules are changing, or other IO on these bytes is in flight.
    NotNow,
    /// It is done, or the agreement is still under way.
    Done,
    /// That agreement is over: every switch has been told how it ended.
    Ended,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An IO has arrived.
    Arrived {
        /// Its number.
        io: IoId,
        /// What it asks.
        request: Request,
        /// The layer that it comes out of.
        via: Option<LayerName>,
        /// The term under which another switch sent it here; `None` if it begins here.
        term: Option<Term>,
    },
    /// An IO has arrived that goes home, whatever the rules say. The runtime first brings the bytes
    /// of `span` home. Meanwhile other IO on these bytes waits.
    ArrivedHomeward {
        /// Its number.
        io: IoId,
        /// What it asks.
        request: Request,
        /// The bytes.
        span: Span,
    },
    /// A piece has come to its end.
    PieceDone {
        /// The IO.
        io: IoId,
        /// The place of the piece in its plan.
        piece: usize,
        /// What came of it.
        outcome: Outcome,
    },
    /// The controller has said where a piece goes.
    Decided {
        /// The IO.
        io: IoId,
        /// The piece.
        piece: usize,
        /// Where it goes.
        destination: Destination,
    },
    /// Programs have said where bytes of an IO go, or one of them has failed.
    ProgramsDecided {
        /// The IO.
        io: IoId,
        /// Its object.
        object: ObjectId,
        /// The term under which they were asked.
        term: Term,
        /// What they said; or the error that the IO fails with.
        decided: Result<Vec<ProgramDecision>, RefusedIo>,
    },
    /// The controller has given an order.
    Ordered {
        /// By this the answer finds its way.
        ticket: u64,
        /// The update.
        term: Term,
        /// The step.
        order: Order,
    },
    /// Another switch asks.
    PeerAsked {
        /// By this the answer finds its way.
        ticket: u64,
        /// The agreement.
        agreement: Stamp,
        /// The question.
        question: PeerQuestion,
    },
    /// Another switch has answered a question, or has not.
    PeerAnswered {
        /// Who.
        peer: SwitchName,
        /// About which agreement.
        agreement: Stamp,
        /// What it was asked.
        question: PeerQuestion,
        /// What it said; `None` if nothing came.
        answer: Option<PeerAnswer>,
    },
    /// Time has passed. Due several times a second.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Send a piece.
    Forward {
        /// The IO.
        io: IoId,
        /// The place of the piece in its plan.
        piece: usize,
        /// Under which term: the next switch uses the rules of that one.
        term: Term,
        /// The rule that sends it; `None` if there is none.
        rule: Option<RuleId>,
        /// Where to; `None`: on, to where it was going.
        destination: Option<Destination>,
        /// How.
        options: Options,
        /// What to ask for.
        ops: Vec<Op>,
        /// The age of a change; `None` if it only reads.
        stamp: Option<Stamp>,
    },
    /// Ask the controller where a piece goes.
    AskController {
        /// The IO.
        io: IoId,
        /// The piece.
        piece: usize,
        /// Whether it is sent the data, too.
        ask: Ask,
    },
    /// Ask programs where bytes of an IO go. It waits meanwhile.
    AskPrograms {
        /// The IO.
        io: IoId,
        /// The term of the rules that name them.
        term: Term,
        /// What to ask.
        asks: Vec<ProgramAsk>,
    },
    /// All pieces are done: join their replies and answer.
    Finish {
        /// The IO.
        io: IoId,
    },
    /// Answer an IO with an error.
    Refuse {
        /// The IO.
        io: IoId,
        /// Why.
        error: RefusedIo,
    },
    /// Answer the controller.
    AnswerOrder {
        /// The order's ticket.
        ticket: u64,
        /// What.
        answer: OrderAnswer,
    },
    /// Ask another switch.
    AskPeer {
        /// Which.
        peer: SwitchName,
        /// About which agreement.
        agreement: Stamp,
        /// What.
        question: PeerQuestion,
    },
    /// Answer another switch.
    AnswerPeer {
        /// The question's ticket.
        ticket: u64,
        /// What.
        answer: PeerAnswer,
    },
    /// Ask the controller for the rules: the switch has started and knows none.
    Join,
}

/// Why an IO is refused. Errors are compared by their text.
#[derive(Debug, Clone)]
pub struct RefusedIo(pub Error);

impl Eq for RefusedIo {}

impl PartialEq for RefusedIo {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}
