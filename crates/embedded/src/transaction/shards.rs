//! The shards of an engine, each behind its lock, and the choice of the thread that runs a request.
//!
//! A shard's thread holds the lock while it works through its queue. If the shard is idle and a
//! request is *brief* (it should take a fraction of a millisecond), the caller's thread takes the
//! lock and runs the request itself: waking a sleeping thread takes several times as long as most
//! requests do. All other requests are queued, above all scripts, because nobody knows how long
//! they take.
//!
//! **Invariants:**
//! - A caller's thread runs a request only with the shard's lock and an empty queue. So requests
//!   run in the order in which they came.
//! - A caller's thread never waits for a shard or for the disk, because it may have other clients
//!   to serve. So it first checks that the journal has ample room.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nacre_object::{Op, Request, Result};

use crate::core::Core;
use crate::transaction::queue::{Asked, Work};
use crate::transaction::shard::Shard;

/// The largest payload of a brief request: copying it and computing its checksum takes some ten
/// microseconds.
const MAX_BRIEF_BYTES: usize = 64 * 1024;
/// Ops of a request that is brief.
const MAX_BRIEF_OPS: usize = 8;
/// The journal bytes that an op of a brief request takes for its keys and its object's head, in
/// addition to its payload.
const BRIEF_OP_BYTES: usize = 1024;
/// A brief request must find this many times the journal space that it needs, because other shards
/// append at the same time.
const BRIEF_ROOM: usize = 4;
/// Journal space for the extent into which a small append may combine earlier ones.
const FOLD_ROOM_BYTES: usize = 32 * 1024;

/// The shards of an open engine.
#[derive(Clone)]
pub(crate) struct Shards(Arc<[Mutex<Shard>]>);

impl Shards {
    pub fn new(shards: impl Iterator<Item = Shard>) -> Self {
        Self(shards.map(Mutex::new).collect())
    }

    /// Starts one thread for each shard. A thread ends once its queue is closed and empty.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn start(&self, core: &Arc<Core>) -> io::Result<Vec<JoinHandle<()>>> {
        (0..self.0.len())
            .map(|index| {
                let (shards, core) = (self.clone(), Arc::clone(core));
                let thread = std::thread::Builder::new().name(format!("nacre-shard-{index}"));
                thread.spawn(move || shards.work(&core, index))
            })
            .collect()
    }

    fn work(&self, core: &Core, index: usize) {
        let queue = &core.queues[index];
        let mut works = Vec::new();
        while queue.wait() {
            let mut shard = self.0[index].lock().unwrap_or_else(PoisonError::into_inner);
            queue.take_all(&mut works);
            let count = works.len();
            shard.run_all(&mut works);
            drop(shard);
            queue.done(count);
        }
    }

    /// Runs a request on the caller's thread, or queues it for its shard's thread.
    ///
    /// # Errors
    /// `Unavailable` once the engine is closed.
    pub fn run(&self, core: &Core, asked: Asked) -> Result<()> {
        let index = usize::from(core.shard_of(&asked.request.header.object));
        if let Some(room) = room_if_brief(core, &asked.request)
            && let Ok(mut shard) = self.0[index].try_lock()
            && core.queues[index].len() == 0
            && core.journal.has_room_for(room)
        {
            shard.run_one(asked);
            return Ok(());
        }
        core.queues[index].push(Work::Request(asked))
    }
}

/// Returns how many bytes must be free in the journal so that a brief request runs without a wait.
/// A request is brief if it should take a fraction of a millisecond. Returns `None` for any other
/// request.
fn room_if_brief(core: &Core, request: &Request) -> Option<usize> {
    let is_brief = |op: &Op| match op {
        Op::Call(call) => core.classes.is_brief(call),
        Op::SnapshotCreate { .. }
        | Op::SnapshotRemove { .. }
        | Op::Rollback { .. }
        | Op::CloneFrom { .. }
        | Op::WriteFullFrom { .. } => false,
        _ => true,
    };
    if request.ops.len() > MAX_BRIEF_OPS || !request.ops.iter().all(is_brief) {
        return None;
    }
    let bytes = request.payload_bytes();
    let needed = bytes + request.ops.len() * BRIEF_OP_BYTES;
    (bytes <= MAX_BRIEF_BYTES).then_some(needed * BRIEF_ROOM + FOLD_ROOM_BYTES)
}
