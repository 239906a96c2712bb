//! Service metadata: maps with epochs, versioned programs, propagation.
//!
//! A [map](Maps) is an object of the system pool. Its class `map` commits by compare-and-swap and
//! keeps a window of its history. Watchers hear of changes by watch/notify, and read the missing
//! part of that history. There is no consensus code here: the store makes the object linearizable
//! and durable. Everything else in this crate builds on maps.
//!
//! The feature `programs` adds the hooks that check and run programs, and with them the VM.
//!
//! **Invariant:** nothing here knows which store it runs on; it uses only
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
    PROGRAM_STATUS_MAP, PROGRAMS_MAP, RESOURCE_MAP_PREFIX, ROUTES_MAP, SLO_CLAIMS_MAP, SLO_MAP,
    is_system_map, map_class,
};
pub use nodes::{Node, Nodes};
pub use programs::{
    Activation, FailedVersion, Garbage, NodeStatus, ProgramId, ProgramInfo, ProgramKind,
    ProgramSource, ProgramUpkeep, Programs, Removal, SourceObject, VersionInfo,
};
pub use subscriber::Subscriber;
