//! What a log needs from its surroundings: the store, the nodes and the programs, each behind a
//! narrow trait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nacre_capability::Policies;
use nacre_host::{HostNodes, HostTransport, RecordStore};
use nacre_object::{ClassName, Locate, Result, Store};

use crate::limits::{MAX_APPENDS, MAX_WRITE_BYTES, MAX_WRITE_ENTRIES};
use crate::view::View;

/// Knows which version of a class its caller is written against.
#[async_trait]
pub trait ClassVersions: Send + Sync + fmt::Debug {
    /// The version that calls of this class name. `None` if they accept the active version.
    fn version(&self, class: &ClassName) -> Option<u64>;

    /// Reads which version is active, after a node refused a call because it named another version.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn refresh(&self, class: &ClassName) -> Result<()>;
}

/// Calls take whatever version is active.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyVersion;

#[async_trait]
impl ClassVersions for AnyVersion {
    fn version(&self, _: &ClassName) -> Option<u64> {
        None
    }

    async fn refresh(&self, _: &ClassName) -> Result<()> {
        Ok(())
    }
}

/// How long the log waits for each kind of operation. The fields give the reasons for their
/// defaults.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long one append may take, from the call to its answer. A killed node is back within
    /// seconds, so an append outlasts most outages. After this time the append fails, and the
    /// caller decides whether to try again.
    pub append: Duration,
    /// A read, fill or trim, retries included.
    pub operation: Duration,
    /// How long one call on one object may take. Even the slowest sync of a busy disk takes far
    /// less.
    pub call: Duration,
    /// If a call waits for a target this long, new records avoid the target until it answers again.
    /// If the target stays silent for the same time once more, the log gets a layout without it.
    pub target: Duration,
    /// Clients have a sequencer replaced that is silent for this long.
    pub sequencer: Duration,
    /// How old a hole may get before a follower fills it. A hole is a position that was issued but
    /// not written. A writer needs only milliseconds between taking a position and writing it.
    pub hole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            append: Duration::from_secs(30),
            operation: Duration::from_secs(10),
            call: Duration::from_secs(5),
            target: Duration::from_millis(500),
            sequencer: Duration::from_millis(300),
            hole: Duration::from_millis(200),
        }
    }
}

/// How waiting records are combined into calls. The numbers of records and bytes must be within the
/// log's limits (512 records, 2 MiB). No record waits longer to gather more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// How many calls on one object may be in flight. Further records wait for the next call.
    pub calls: usize,
    /// Records of one call.
    pub records: usize,
    /// How many bytes the records of one call may have. One record is always allowed.
    pub bytes: usize,
}

impl Batching {
    /// Every record is a call of its own, made at once.
    pub const OFF: Self = Self { calls: MAX_APPENDS, records: 1, bytes: MAX_WRITE_BYTES };
    /// Few large calls, for a store where each call costs much, as an operation of an OSD does.
    pub const LARGE: Self = Self { calls: 2, records: MAX_WRITE_ENTRIES, bytes: MAX_WRITE_BYTES };
}

impl Default for Batching {
    /// By default, 8 calls on one object may be in flight. While the node syncs one of them, the
    /// others arrive at the object and share the next sync. That gives a higher throughput than
    /// fewer, larger calls.
    fn default() -> Self {
        Self { calls: 8, records: MAX_WRITE_ENTRIES, bytes: MAX_WRITE_BYTES }
    }
}

/// What a log needs. It is cheap to clone: a clone shares everything.
#[derive(Clone)]
pub struct LogEnv {
    /// Keeps the entries.
    pub store: Arc<dyn Store>,
    /// Knows where the store puts objects.
    pub placement: Arc<dyn Locate>,
    /// Keeps the views; [`MapRecords`](nacre_host::MapRecords) on the registry's maps.
    pub views: Arc<dyn RecordStore<View>>,
    /// Reaches the sequencers.
    pub sequencers: Arc<dyn HostTransport>,
    /// Knows the nodes that host them.
    pub nodes: Arc<dyn HostNodes>,
    /// Knows the programs by which a sequencer lends its capability.
    pub policies: Arc<dyn Policies>,
    /// Knows the versions of classes.
    pub classes: Arc<dyn ClassVersions>,
    /// How long the log waits for each kind of operation.
    pub patience: Patience,
    /// How records share calls.
    pub batching: Batching,
    /// The number of objects that each stripe of a new log has on each target. The creator of the
    /// log may choose another number. Use more than one if a target consists of many disks.
    pub columns: u32,
}

impl fmt::Debug for LogEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogEnv").field("store", &self.store).finish_non_exhaustive()
    }
}
