//! How a transaction runs: queue, shard, journal group, reply, tables.

pub(crate) mod applier;
pub(crate) mod batch;
pub(crate) mod change_set;
pub(crate) mod commit;
pub(crate) mod committer;
pub(crate) mod queue;
pub(crate) mod read_barrier;
pub(crate) mod recent_changes;
pub(crate) mod shard;
pub(crate) mod shards;
pub(crate) mod trail;
