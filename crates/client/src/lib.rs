//! nacre: a programmable storage system.
//!
//! [`Cluster`] is the door: [`Cluster::connect`] to the nodes of a folder that `nacre up` runs,
//! [`Cluster::connect_as`] an entity from another machine, [`Cluster::embedded`] for a cluster in
//! this process, or [`Cluster::ceph`] for one that a Ceph cluster keeps. From it come [`Pool`]s of [`Object`]s,
//! versioned [`Programs`], [`Maps`] of service metadata, and shared [`Log`]s.
//!
//! ```no_run
//! # async fn f() -> nacre::Result<()> {
//! let cluster = nacre::Cluster::embedded("/tmp/notes").await?;
//! let object = cluster.pool("data").await?.object("greeting")?;
//! object.append("hello").await?;
//! assert_eq!(object.read(0, 100).await?, "hello");
//! # Ok(()) }
//! ```
//!
//! Every error is an [`Error`] whose [`ErrorKind`] says what to do next.

mod catch_up_layer;
mod class_service;
mod class_versions;
mod cluster;
mod cluster_file;
#[cfg(test)]
mod fuzz_tests;
mod gateway;
mod gateway_watch;
mod hooks;
mod io_path;
mod keys;
mod layouts;
mod local;
mod log_class;
mod lost_sources;
mod neighbours;
mod object;
mod pool;
mod pools;
mod put;
#[cfg(test)]
mod put_tests;
mod reader;
#[cfg(test)]
mod reader_tests;
mod sessions;
mod staging;
mod striped;
mod targets;
mod transaction;

pub use class_service::{ClassService, ProgramFailures, Served};
pub use cluster::{Cluster, LOG_BRADOS_SOURCE, LOG_PROGRAM_SOURCE, LogUse, Parts, log_program};
pub use cluster_file::{ClusterFile, FolderLock, Layout, NodeEntry, RoleName};
pub use hooks::hooks;
pub use io_path::{own_path, served_path};
pub use keys::Keys;
pub use layouts::{ClassLayout, LayoutChange, LayoutKeeper, Layouts, Phase, Walk};
pub use nacre_channels::{DeadLetters, DeadMessage, DeliveryStats, OutboxPage, WaitingMessage};
pub use nacre_class::{CallsSeen, ColumnSeen, MethodSeen};
pub use nacre_log::{
    BRADOS_CLASS as LOG_BRADOS_CLASS, Batching, Entry, Log, LogName, LogOptions, LogStat,
    NATIVE_CLASS as LOG_NATIVE_CLASS, ReadSlot,
};
pub use nacre_object::{
    CallReply, ClassCall, Error, ErrorKind, MapEntry, MapRange, ObjectStat, Op, OpResult, Reply,
    Result,
};
pub use nacre_rados::RadosOptions;
pub use nacre_registry::{
    Change, Entities, Entity, EpochRecord, Event, EventItem, EventWatcher, Events, Garbage, Grant,
    Grants, Hook, Hooks, MapEvent, MapState, MapWatcher, Maps, Node, NodeStatus, Nodes, ProgramId,
    ProgramInfo, ProgramKind, ProgramSource, Programs, Removal, Severity, SourceError,
    SourceObject, VersionInfo, is_system_map,
};
pub use nacre_telemetry::{OpenSpan, Order, Sampler, Sampling, Span, Spans, traced};
pub use object::Object;
pub use pool::Pool;
pub use reader::{MapReader, ObjectReader};
pub use sessions::{ConnectOptions, Sessions};
pub use striped::{Striped, StripedReply};
pub use targets::TargetFolder;
pub use transaction::Transaction;
