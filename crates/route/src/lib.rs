//! Routes: rules decide to which object, target or layer a node sends each IO (sRoute, FAST 2016).
//! Nodes and gateways use it.
//!
//! A rule may leave the decision to a program in Luau ([`RouteProgram`], feature `programs`). A
//! second kind of program makes the rules of whole applications ([`ControlProgram`]). A third kind is a
//! stage that IO passes on its way ([`WaypointProgram`]).
//!
//! **Invariant:** this crate only decides. It performs no IO, and reads no clock and no randomness.

mod check;
#[cfg(feature = "programs")]
mod control;
mod controller;
mod copies;
mod direct;
mod endpoint;
mod erasure;
mod fast_hash;
mod file;
pub mod limits;
mod model;
mod plan;
#[cfg(feature = "programs")]
mod program;
mod rules;
mod shards;
mod switch;
mod waypoint;

pub use check::{
    Checked, End, Endpoint, Finding, FindingKind, Hop, Network, Reason, Way, check, trace,
};
#[cfg(feature = "programs")]
pub use control::{
    CacheLoad, CacheTenant, ControlHook, ControlInput, ControlOutput, ControlProgram, LiveControls,
    ObjectLoad, Setting, Settings, SwitchRule, TargetLoad, TenantLoad, WaitingIo,
};
pub use controller::{
    Controller, ControllerCommand, ControllerEvent, Followed, Found, Move, Record, Stored, Wanted,
    newest,
};
pub use copies::{
    COPIED_CLASS, Copies, CopyData, CopyDrop, CopyHead, CopySettings, CopyState, CopyStep,
    CopySummary, CopyTag, CopyToDrop, CopyUpdate, CopyWrite, MadeCopy, MakeFailure, Making, Missed,
    PlannedRead, ReadFailure, ReadFrom, Update, UpdateEnd, UpdateFailure, copied_class,
};
pub use direct::{
    ClientRoutes, DirectRead, DirectRules, DirectSource, NextRead, Permit, PermitAsk, Permits,
    WhereAsk,
};
pub use endpoint::{
    NAMED_OBJECTS, ROUTED_CLASS, ROUTED_POOL, RoutedDrop, RoutedRead, RoutedSpans, RoutedWrite,
    outrun_by, routed_class,
};
pub use erasure::{ERASURE_ATTRIBUTE, ErasureStub, FragmentPlace, FragmentSpan, Stripes};
pub use fast_hash::{FastHashMap, FastHashSet};
pub use file::{
    APPLICATION_PREFIX, CONTROL_PREFIX, Grant, Insertion, Location, NamedPrograms, Routes,
    StoredApplication, StoredInsertion, Topology,
};
pub use model::{
    ApplicationName, Ask, Choice, Declared, Destination, Erasure, Follow, Header, Io, LayerName,
    ObjectMatch, Operation, Operations, Options, Pattern, Prepare, Programs, Replies, Rule, RuleId,
    Scatter, SourceMatch, Span, SwitchName, Take, Touch, longest_prefix_first, text_of, touches,
    touches_bytes,
};
pub use plan::{Piece, PieceOps, PieceReply, Plan, join, plan};
#[cfg(feature = "programs")]
pub use program::{Decision, LiveRoutes, RouteHook, RouteProgram};
pub use rules::{Placement, PrefixMap, RuleTable, Segment};
pub use shards::{
    CacheDemand, ExactCurve, MissRatioCurve, ReadProfile, Shards, allocate_by_hull,
    allocate_exactly, divide_cache,
};
pub use switch::{
    Command, ControllerAsk, Event, IoId, Order, OrderAnswer, Outcome, PeerAnswer, PeerQuestion,
    Placed, ProgramAsk, ProgramDecision, RefusedIo, RuleChange, Stamp, Switch, SwitchRules, Term,
    WaypointAsk,
};
pub use waypoint::{
    Answered, Coded, CodedOp, Content, HoldingQueue, Limit, MARK_ATTRIBUTE, Mark,
    Way as WaypointWay, WaypointKind, code,
};
#[cfg(feature = "programs")]
pub use waypoint::{LiveWaypoints, Price, WaypointHook, WaypointProgram};
