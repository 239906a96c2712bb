//! The engine's public interface: a [`Store`] and a [`Watch`] on one directory.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{BoxFuture, TryFutureExt};
use nacre_object::limits::{
    MAX_LIST_ENTRIES, MAX_NOTIFY_BYTES, MAX_OPS, MAX_REQUEST_BYTES, MAX_REQUEST_KEYS,
};
use nacre_object::{
    Capabilities, Error, ErrorKind, ListPage, ListRequest, ObjectId, ObjectName, Op, Reply,
    Request, Result, Store, Watch, WatchEvent, WatchStream,
};
use tokio::sync::{Semaphore, oneshot};

use crate::core::Core;
use crate::entry::key;
use crate::errors;
use crate::opening::{self, Opened};
use crate::options::{MAX_QUEUED_BYTES, Options};
use crate::scrub::{self, Damage, ScrubCursor, ScrubStep};
use crate::stats::{GroupStats, Stats};
use crate::transaction::commit::Answer;
use crate::transaction::queue::{Asked, closed};
use crate::transaction::shards::Shards;
use crate::transaction::trail::{Trail, fields_of};
use crate::upkeep::Upkeep;

/// How many bytes one permit of a shard's queue stands for. A request takes permits for its
/// payload, and one for each op, because an op itself takes about this much memory.
const PERMIT_BYTES: usize = 1024;
/// How much memory a map key takes beyond its own bytes while its request runs.
const KEY_BYTES: usize = 128;

// Every valid request fits into an empty queue.
const _: () = assert!(
    MAX_OPS + (MAX_REQUEST_BYTES + MAX_REQUEST_KEYS * KEY_BYTES) / PERMIT_BYTES
        <= MAX_QUEUED_BYTES / PERMIT_BYTES
);

/// An engine that keeps objects in one directory. Clones are handles to the same engine. The engine
/// closes when the last handle is dropped or any handle calls `close`.
#[derive(Clone)]
pub struct EmbeddedEngine(Arc<Inner>);

struct Inner {
    path: PathBuf,
    mended: Vec<Damage>,
    /// `None` once closed.
    open: RwLock<Option<Open>>,
    threads: Mutex<Option<Threads>>,
    /// Permits for what may be queued.
    room: Arc<Semaphore>,
}

struct Open {
    core: Arc<Core>,
    shards: Shards,
}

struct Threads {
    of_shards: Vec<JoinHandle<()>>,
    committer: JoinHandle<()>,
    upkeep: JoinHandle<Upkeep>,
    lock: File,
}

/// The usual hint for a full disk is to remove objects, but a store that is not open cannot do
/// that.
fn not_opened(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Exhausted => error.hint("free space on the disk"),
        ErrorKind::Corrupt if error.hint_text().is_none() => {
            error.hint("restore the folder from a copy, or save what can be read: `nacre salvage`")
        }
        _ => error,
    }
}

impl EmbeddedEngine {
    /// Opens a directory, or makes a new one. If an engine in it has crashed, blocks while its
    /// journal is replayed.
    ///
    /// # Errors
    /// `Unavailable` if another process has it open or the disk fails, `Corrupt` if acknowledged
    /// data cannot be read back, `Invalid` for options out of bounds.
    pub fn open(options: Options) -> Result<Self> {
        let Opened { core, shards, shard_threads, committer, upkeep, mended, lock } =
            opening::open(&options).map_err(|error| not_opened(error).during("open"))?;
        Ok(Self(Arc::new(Inner {
            path: options.path,
            mended,
            open: RwLock::new(Some(Open { core, shards })),
            threads: Mutex::new(Some(Threads {
                of_shards: shard_threads,
                committer,
                upkeep,
                lock,
            })),
            room: Arc::new(Semaphore::new(MAX_QUEUED_BYTES / PERMIT_BYTES)),
        })))
    }

    /// Finishes the queued requests, makes a checkpoint and releases the directory. Blocks until
    /// that is done. A second call does nothing.
    pub fn close(&self) {
        self.0.close();
    }

    /// What the engine has done and holds. All zeros once it is closed.
    pub fn stats(&self) -> Stats {
        self.0.core().map(|core| core.stats()).unwrap_or_default()
    }

    /// Does one step of a scrub, that is, of a search for damage in all stored data. The first step
    /// begins at the default cursor, and each step returns the cursor of the next. A step blocks
    /// its caller for some milliseconds; other requests go on.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not answer or the engine is closed. Damage is reported in the
    /// step and is not an error.
    pub fn scrub(&self, cursor: &ScrubCursor) -> Result<ScrubStep> {
        let core = self.0.core()?;
        scrub::step(&core, cursor).map_err(|error| error.during("scrub"))
    }

    /// The small vital files, such as the manifest, that were damaged or missing when the directory
    /// was opened. Each was restored from its copy, so no data is lost.
    pub fn mended(&self) -> &[Damage] {
        &self.0.mended
    }

    /// Statistics of the groups of transactions that were synced together. `None` once the engine
    /// is closed.
    pub fn groups(&self) -> Option<GroupStats> {
        Some(self.0.core().ok()?.counters.groups())
    }

    /// The last failure of background upkeep, or `None` if it never failed. After a failure, space
    /// is freed late or not at all; requests are not affected.
    pub fn upkeep_failure(&self) -> Option<String> {
        Some(self.0.core().ok()?.upkeep.last_failure()?.to_string())
    }

    /// Why the engine no longer writes, or `None` if it still writes. The reason is a failed write
    /// or sync. Reads still work. To write again, open the directory again: all synced data is
    /// still there, and unsynced data as far as it can be read back.
    pub fn failure(&self) -> Option<String> {
        self.0.core().ok()?.health.failure().map(str::to_owned)
    }
}

impl Inner {
    fn core(&self) -> Result<Arc<Core>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| Arc::clone(&open.core)).ok_or_else(closed)
    }

    fn close(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Threads { of_shards, committer, upkeep, lock }) = threads.take() else { return };
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Open { core, shards }) = open else { return };
        self.room.close();
        core.queues.iter().for_each(|queue| queue.close());
        for thread in of_shards {
            let _ = thread.join();
        }
        // The shards hold references to the engine.
        drop(shards);
        core.journal.close();
        let _ = committer.join();
        core.upkeep.close();
        if let Ok(mut upkeep) = upkeep.join() {
            // If this checkpoint fails, the next start only replays a little more.
            let _ = upkeep.make_checkpoint();
        }
        core.tables.stop();
        core.watchers.close();
        // Each running read holds a reference to the engine. Wait for the last one before releasing
        // the directory.
        let mut core = core;
        while let Err(shared) = Arc::try_unwrap(core) {
            core = shared;
            std::thread::yield_now();
        }
        drop(lock);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedEngine").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl EmbeddedEngine {
    async fn write(&self, request: Box<Request>) -> Result<Reply> {
        let permits = permits_of(&request);
        let permit = Arc::clone(&self.0.room)
            .acquire_many_owned(permits as u32)
            .await
            .map_err(|_| closed())?;
        let (to, outcome) = oneshot::channel();
        let answer = Answer { to, _permit: permit, trail: Trail::begin() };
        self.run(Asked { request, answer })?;
        outcome.await.unwrap_or_else(|_| {
            Err(Error::unavailable("the engine stopped while the transaction ran")
                .hint("open the store again, and read whether the transaction happened"))
        })
    }

    /// This must not be an `async fn`: its future would hold a reference to the engine while it
    /// waits, and keep the engine from closing.
    fn run(&self, asked: Asked) -> Result<()> {
        let open = self.0.open.read().unwrap_or_else(PoisonError::into_inner);
        let Open { core, shards } = open.as_ref().ok_or_else(closed)?;
        shards.run(core, asked)
    }

    /// Replies to a read-only request, on the caller's thread.
    fn read(&self, request: &Request) -> Result<Reply> {
        let core = self.0.core()?;
        let mut trail = Trail::begin();
        let result = core.read(request);
        trail.step("read", || fields_of(request));
        core.counters.note_read(&result);
        result
    }

    /// Waits until the changes of the journal group that `awaited` returns are in the tables. While
    /// it waits, the future holds no reference to the engine, so the engine can close.
    async fn await_tables(&self, awaited: impl FnOnce(&Core) -> Option<u64>) -> Result<()> {
        let awaited = {
            let core = self.0.core()?;
            awaited(&core).map(|group| (Arc::clone(&core.read_barrier), group))
        };
        match awaited {
            None => Ok(()),
            // Few requests wait here. An unboxed future would make the future of every request
            // larger.
            Some((read_barrier, group)) => Box::pin(read_barrier.wait(group)).await,
        }
    }

    async fn answer(&self, request: Box<Request>) -> Result<Reply> {
        // Decide this once: meanwhile, another version of the class may be installed.
        let mut first_write = None;
        let awaited = |core: &Core| {
            first_write = core.first_write(&request).map(Op::name);
            core.awaited(&request, first_write.is_some())
        };
        self.await_tables(awaited).await?;
        match first_write {
            None => self.read(&request),
            Some(write) if request.header.snapshot.is_some() => {
                Err(Error::invalid("a snapshot cannot be changed").during(write))
            }
            Some(_) => self.write(request).await,
        }
    }
}

#[async_trait]
impl Store for EmbeddedEngine {
    // Not an `async fn`, because its future would have space for the request until the reply comes.
    fn submit<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Result<Reply>>
    where
        'a: 'b,
        Self: 'b,
    {
        let object = request.header.object.clone();
        let answer = self.answer(Box::new(request));
        Box::pin(answer.map_err(|error| error.on(object)))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.await_tables(|core| core.read_barrier.awaited_of_all()).await?;
        let core = self.0.core()?;
        list(&core, &request).map_err(|error| error.during("list").on(&request.pool))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

/// The share of the queue that a request takes up.
fn permits_of(request: &Request) -> usize {
    let bytes = request.payload_bytes() + request.key_count() * KEY_BYTES;
    request.ops.len() + bytes / PERMIT_BYTES
}

fn list(core: &Core, request: &ListRequest) -> Result<ListPage> {
    use std::ops::Bound::{Excluded, Included};
    let limit = request.limit.min(MAX_LIST_ENTRIES);
    let prefix = key::head_prefix(&request.pool, &request.prefix);
    let after = request.after.as_ref();
    let after = after.map(|after| key::head(&ObjectId::new(request.pool.clone(), after.clone())));
    let start = match &after {
        Some(after) if *after >= prefix => Excluded(&**after),
        _ => Included(&*prefix),
    };
    let end = key::after_prefix(&prefix).expect("the tag of heads has a successor");
    let mut page = ListPage::default();
    if after.as_ref().is_some_and(|after| **after >= *end) {
        return Ok(page);
    }
    for entry in core.tables.snapshot().range((start, Excluded(&end))) {
        let (head, _) = entry?;
        if page.names.len() == limit {
            page.more = true;
            break;
        }
        let name = std::str::from_utf8(key::name_in_head(&head, &request.pool)).ok();
        let name = name.and_then(|name| ObjectName::new(name).ok());
        page.names.push(name.ok_or_else(|| {
            Error::corrupt("a stored object has an invalid name").hint(errors::FIND_DAMAGE)
        })?);
    }
    Ok(page)
}

#[async_trait]
impl Watch for EmbeddedEngine {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        let core = self.0.core()?;
        core.watchers.watch(object).map_err(|error| error.during("watch").on(object))
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        if payload.len() > MAX_NOTIFY_BYTES {
            return Err(Error::invalid(format!(
                "a notification of {} bytes is too long",
                payload.len()
            ))
            .during("notify")
            .on(object)
            .hint(format!("send at most {MAX_NOTIFY_BYTES} bytes")));
        }
        self.0.core()?.watchers.tell(object, &WatchEvent::Notified { payload });
        Ok(())
    }
}
