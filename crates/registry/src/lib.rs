//! Service metadata: maps with epochs, versioned programs, propagation.
//!
//! A [map](Maps) is an object of the system pool whose class `map` commits by compare-and-swap and
//! keeps a window of its history; watchers hear of changes by watch/notify and read what they lack
//! from that history. There is no consensus code here: the store gives the object linearizability
//! and durability. Everything else stands on maps.
//!
//! The feature `programs` adds the hooks that check and run programs, and with them the VM.
//!
//! **Invariant:** nothing here knows which store it runs on; it is written to
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
    BALANCER_MAP, Change, ENTITIES_MAP, EpochRecord, Herald, History, LAYOUTS_MAP, LOG_MAP_PREFIX,
    MapEvent, MapState, MapWatcher, Maps, NODES_MAP, Origin, POOLS_MAP, PROGRAM_STATUS_MAP,
    PROGRAMS_MAP, RESOURCE_MAP_PREFIX, ROUTES_MAP, SLO_CLAIMS_MAP, SLO_MAP, is_system_map,
    map_class,
};
pub use nodes::{Node, Nodes};
pub use programs::{
    Activation, FailedVersion, Garbage, NodeStatus, ProgramId, ProgramInfo, ProgramKind,
    ProgramSource, ProgramUpkeep, Programs, Removal, SourceObject, VersionInfo,
};
pub use subscriber::Subscriber;
