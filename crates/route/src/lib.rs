//! Routes: the path of an IO as a program (sRoute, FAST 2016).
//!
//! **Invariant:** the crate decides and does nothing. It has no IO, no clock and no randomness.

mod check;
mod controller;
mod endpoint;
mod file;
pub mod limits;
mod model;
mod plan;
mod rules;
mod shards;
mod switch;

pub use check::{
    Checked, End, Endpoint, Finding, FindingKind, Hop, Network, Reason, Way, check, trace,
};
pub use controller::{
    Controller, ControllerCommand, ControllerEvent, Followed, Found, Move, Record, Stored, Wanted,
    newest,
};
pub use endpoint::{ROUTED_CLASS, RoutedDrop, RoutedSpans, RoutedWrite, outrun_by, routed_class};
pub use file::{Grant, Insertion, Location, Routes, Topology};
pub use model::{
    ApplicationName, Ask, Choice, Destination, Follow, Header, Io, LayerName, ObjectMatch,
    Operation, Operations, Options, Pattern, Prepare, Replies, Rule, RuleId, Scatter, SourceMatch,
    Span, SwitchName, Take, Touch, longest_prefix_first, touches,
};
pub use plan::{Piece, PieceReply, Plan, join, plan};
pub use rules::{Placement, RuleTable, Segment};
pub use shards::{ExactCurve, MissRatioCurve, Shards, allocate_by_hull, allocate_exactly};
pub use switch::{
    Command, Event, IoId, Order, OrderAnswer, Outcome, PeerAnswer, PeerQuestion, Placed, RefusedIo,
    Stamp, Switch, SwitchRules, Term,
};
