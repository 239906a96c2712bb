//! The shards of an engine, each behind its lock, and where a request runs.
//!
//! A shard's thread takes the lock while it works through its queue. Who asks something brief of a shard that
//! is idle takes it instead and runs the request at once: to hand it to a thread that sleeps takes several
//! times as long as most requests do. What is not brief, a script of which nobody knows above all, or finds its
//! shard at work, is queued.
//!
//! **Invariants:** who runs a request elsewhere than on its shard's thread holds the shard, with nothing queued:
//! so requests run in the order in which they came. Nobody but that thread waits for a shard, nor, having looked
//! for room in the journal with some to spare, for the disk to make more: a thread that serves others must not
//! stand still while a disk does.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nacre_object::{Op, Request, Result};

use crate::core::Core;
use crate::transaction::queue::{Asked, Work};
use crate::transaction::shard::Shard;

/// Payload of a request that is brief: to copy it and sum it up takes some ten microseconds.
const MAX_BRIEF_BYTES: usize = 64 * 1024;
/// Ops of a request that is brief.
const MAX_BRIEF_OPS: usize = 8;
/// What an op of a brief request takes up in the journal besides its payload: keys and heads.
const BRIEF_OP_BYTES: usize = 1024;
/// Times as much room as a request needs is looked for: other shards append meanwhile.
const BRIEF_ROOM: usize = 4;
/// Room for what a small append may fold.
const FOLD_ROOM_BYTES: usize = 32 * 1024;

/// The shards of an open engine.
#[derive(Clone)]
pub(crate) struct Shards(Arc<[Mutex<Shard>]>);

impl Shards {
    pub fn new(shards: impl Iterator<Item = Shard>) -> Self {
        Self(shards.map(Mutex::new).collect())
    }

    /// Starts their threads, which end once their queues are closed and empty.
    ///
    /// # Errors
    /// What the operating system says.
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

    /// Has a request run, here or by its shard's thread.
    ///
    /// # Errors
    /// `Unavailable` once closed.
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

/// If a request is over in a fraction of a millisecond, as far as that can be known without running it: room in
/// the journal with which it does not wait.
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
