//! The basic types of nacre, and its two central traits. Every engine, layer and class is written
//! to one of these traits.
//!
//! An *object* is a name in a pool, with a byte stream, a sorted key–value map, attributes and a
//! version. A *transaction* is a list of [`Op`]s on one object that happens wholly or not at all.
//!
//! - [`Store`] is an object seen from outside. Engines, remote nodes and layers all answer a
//!   [`Request`] in the same way, so they can be combined in any order.
//! - [`ObjectView`] is an object seen from inside: what a running class method sees, on every
//!   engine.
//!
//! **Invariant:** nothing in this crate depends on an engine, a wire format or a clock.

pub mod bounds;
mod class_host;
mod error;
mod event_queue;
mod guard;
mod layer;
pub mod limits;
mod name;
mod native_class;
mod op;
mod read_only;
mod remote_class_host;
mod request;
mod store;
mod transaction;
mod view;

pub use class_host::{CallAllowance, CallContext, CallReply, ClassCall, ClassHost, NoClasses};
pub use error::{Error, ErrorKind, FaultSite, Result, Status};
pub use event_queue::EventQueue;
pub use guard::{Demand, FINGERPRINT_BYTES, Guard, LocalOnly, Peer, Standing, Unlimited};
pub use layer::{Layer, Stack};
pub use name::{
    ApplicationName, ClassName, EntityName, LayerName, MapName, MethodName, NodeName, ObjectId,
    ObjectName, PoolName, ProgramName, SnapshotName, SwitchName, TargetName, TenantName,
};
pub use native_class::{MethodAccess, NativeClass, NativeMethod};
pub use op::{MapEntry, MapRange, OWN_ATTRIBUTES, ObjectStat, Op, OpResult};
pub use read_only::ReadOnlyView;
pub use remote_class_host::{ClassForm, ClassSource, RemoteClassHost, RemoteFault};
pub use request::{Access, ByteRange, IoHeader, Reply, Request};
pub use store::{
    Capabilities, Capability, ListPage, ListRequest, Locate, Store, Watch, WatchEvent, WatchStream,
};
pub use transaction::{TransactionView, run_transaction};
pub use view::ObjectView;
