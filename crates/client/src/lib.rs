//! nacre: a programmable storage system.
//!
//! Everything begins with a [`Cluster`]. [`Cluster::connect`] reaches the nodes of a folder that
//! `nacre up` runs; [`Cluster::connect_as`] connects as an entity, from any computer. A cluster
//! gives [`Pool`]s of [`Object`]s, versioned [`Programs`], [`Maps`] of service metadata, and shared
//! [`Log`]s. `nacre_node::LocalCluster` is a cluster inside the calling process, without daemons.
//! This crate links no engine.
//!
//! The feature `programs` adds the Brados compiler and the VM. Without it a client cannot put
//! programs or call striped objects; everything else works.
//!
//! ```no_run
//! # async fn f() -> nacre::Result<()> {
//! let cluster = nacre::Cluster::connect("nacre-data").await?;
//! let object = cluster.pool("data").await?.object("greeting")?;
//! object.append("hello").await?;
//! assert_eq!(object.read(0, 100).await?, "hello");
//! # Ok(()) }
//! ```
//!
//! Every error is an [`Error`]. Its [`ErrorKind`] says what a program should do next.

mod class_versions;
mod client_switch;
mod cluster;
mod cluster_file;
#[cfg(test)]
mod fuzz_tests;
mod gateway;
mod gateway_watch;
mod hooks;
mod keys;
mod log_class;
mod lost_sources;
mod neighbours;
mod object;
mod pool;
mod pools;
mod program_removal;
mod put;
#[cfg(test)]
mod put_tests;
mod reader;
#[cfg(test)]
mod reader_tests;
mod route_programs;
mod sessions;
mod staging;
#[cfg(feature = "programs")]
mod striped;
mod targets;
mod transaction;

pub use cluster::{
    Cluster, LOG_BRADOS_SOURCE, LOG_PROGRAM_SOURCE, LogUse, OWN_SOURCES, Parts, log_program,
};
pub use cluster_file::{ClusterFile, FolderLock, Layout, NodeEntry, RoleName};
pub use hooks::hooks;
#[cfg(feature = "programs")]
pub use hooks::{class_hook, native_classes};
pub use keys::Keys;
pub use nacre_channels::{DeadLetters, DeadMessage, DeliveryStats, OutboxPage, WaitingMessage};
pub use nacre_host::ClientRouting;
pub use nacre_log::{
    BRADOS_CLASS as LOG_BRADOS_CLASS, Batching, Entry, LOG_OBJECT_PREFIX, Log, LogName, LogOptions,
    LogStat, NATIVE_CLASS as LOG_NATIVE_CLASS, ReadSlot,
};
pub use nacre_object::{
    CallReply, ClassCall, Error, ErrorKind, MapEntry, MapRange, ObjectStat, Op, OpResult, Reply,
    Result,
};
pub use nacre_registry::{
    Change, Entities, Entity, EpochRecord, Event, EventItem, EventWatcher, Events, Garbage, Grant,
    Grants, Hook, Hooks, MapEvent, MapState, MapWatcher, Maps, Node, NodeStatus, Nodes, ProgramId,
    ProgramInfo, ProgramKind, ProgramSource, Programs, Removal, Severity, SourceError,
    SourceObject, VersionInfo, is_system_map,
};
#[cfg(feature = "programs")]
pub use nacre_resource::native_type as native_file_type;
pub use nacre_resource::{Resource, ResourceName, ResourceStat, Resources};
pub use nacre_slo::Slos;
pub use nacre_telemetry::{OpenSpan, Order, Sampler, Sampling, Span, Spans, traced};
pub use object::Object;
pub use pool::Pool;
pub use pools::PoolRecord;
pub use reader::{MapReader, ObjectReader};
pub use sessions::{ConnectOptions, Sessions};
pub use staging::staged_object;
#[cfg(feature = "programs")]
pub use striped::{Striped, StripedReply};
pub use targets::{TargetFolder, damaged_target_files};
pub use transaction::Transaction;
