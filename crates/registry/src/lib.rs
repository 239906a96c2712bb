//! Cluster metadata: maps with epochs, programs with versions, entities, nodes and the cluster log.
//!
//! A [map](Maps) is an object of the system pool. The object's class `map` commits by
//! compare-and-swap and keeps the newest part of the map's history. A watcher is notified of a
//! change, and reads the part of the history that it lacks. This crate has no consensus code: the
//! store makes the object linearizable and durable. Everything else in this crate builds on maps.
//!
//! The feature `programs` adds the hooks that check and run programs, and the VM that they need.
//!
//! **Invariant:** this crate does not depend on the kind of store. It uses only
//! [`Store`](nacre_object::Store) and [`Watch`](nacre_object::Watch).

mod backoff;
mod catch_up;
mod entities;
mod events;
mod follower;
#[cfg(test)]
mod fuzz_tests;
mod hooks;
pub mod limits;
mod maps;
mod nodes;
mod numbered;
mod programs;
mod subscriber;
mod system;

pub use entities::{
    CallNeed, CallRule, CallRules, Entities, Entity, EntityStanding, Grant, Grants, LiveEntities,
    Need, Right, Rights, Scope, entities_map, needs_of,
};
pub use events::{
    Event, EventItem, EventWatcher, Events, FaultReporter, KindFaults, ProgramFault, ProgramSite,
    RefusalReporter, Severity, events_class,
};
#[cfg(feature = "programs")]
pub use hooks::{ClassHook, MapHook};
pub use hooks::{
    CompiledHook, CompiledProgram, Hook, Hooks, LiveProgram, LivePrograms, SourceError,
};
pub use maps::{
    BALANCER_MAP, Change, ChangeFeed, ENTITIES_MAP, EpochRecord, History, LAYOUTS_MAP,
    LOG_MAP_PREFIX, MapEvent, MapState, MapWatcher, Maps, NODES_MAP, Origin, POOLS_MAP,
    PROGRAM_STATUS_MAP, PROGRAMS_MAP, RESOURCE_MAP_PREFIX, ROUTE_CONTROL_MAP, ROUTE_GATEWAYS_MAP,
    ROUTES_MAP, SLO_CLAIMS_MAP, SLO_MAP, is_system_map, map_class,
};
pub use nodes::{Node, Nodes};
pub use programs::{
    Activation, FailedVersion, Garbage, NodeStatus, ProgramId, ProgramInfo, ProgramKind,
    ProgramSource, ProgramUpkeep, Programs, Removal, SourceObject, VersionInfo,
};
pub use subscriber::Subscriber;
