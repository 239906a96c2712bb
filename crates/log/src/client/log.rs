//! The handle of a log.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use nacre_clock::Random;
use nacre_host::ClientRouting;
use nacre_object::{Error, ErrorKind, NodeName, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::appender::Appender;
use super::follow::{Follow, follow};
use super::options::{Entry, LogOptions, LogStat, ReadSlot};
use super::positions::{Positions, past_tail};
use super::reader::Reader;
use super::removal::{self, remove};
use super::view_cache::ViewCache;
use crate::LogName;
use crate::env::LogEnv;
use crate::limits::{MAX_READ_POSITIONS, MAX_TOKENS};
use crate::sequencer::{Reconfiguration, SEAL_PATIENCE, SequencerClient, dismiss, seal_first};
use crate::storage::StorageClient;
use crate::storage::status::EROFS;
use crate::view::{FIRST_RANGE_BOUND, View};

/// A log. A clone is another handle on the same log.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

pub(super) struct Inner {
    pub name: LogName,
    pub env: LogEnv,
    pub views: Arc<ViewCache>,
    pub sequencer: Arc<SequencerClient>,
    pub reader: Reader,
    pub positions: Positions,
    appender: Arc<Appender>,
}

impl Log {
    /// Creates a new log and opens it.
    ///
    /// # Errors
    /// `Exists` if there is a log of that name; `Invalid` for options out of bounds; `Unavailable`
    /// if the storage does not answer in time.
    pub async fn create(env: LogEnv, name: LogName, options: LogOptions) -> Result<Self> {
        let exists = || Error::exists(format!("a log {name} exists already")).during("create");
        let former = match env.views.last(&name).await? {
            Some(view) if view.is_removed() => removal::bury(&env, &view).await?,
            other => other,
        };
        if former.as_ref().is_some_and(|view| !view.is_removed()) {
            return Err(exists());
        }
        let view = sealed_first(&env, &name, former.as_ref(), &options).await;
        let view = view.map_err(|error| error.during("create").on(&name))?;
        match env.views.propose(&view).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Stale => return Err(exists()),
            Err(error) => return Err(error.during("create").on(&name)),
        }
        Self::open(env, name).await
    }

    /// Removes a log and all its records. A later log of the same name begins at position 0.
    ///
    /// Each object keeps a header of some bytes that refuses all requests. The log keeps its last
    /// view, which says that the log is removed. So a handle of the removed log gets `NotFound`,
    /// even if a later log has the name.
    ///
    /// # Errors
    /// `NotFound` if there is no log of that name. After `Unavailable` the log may be partly
    /// removed: remove it again.
    pub async fn remove(env: LogEnv, name: LogName) -> Result<()> {
        let removed = remove(&env, &name).await;
        let view = removed.map_err(|error| error.during("remove").on(&name))?;
        dismiss(&env, &view).await;
        Ok(())
    }

    /// Opens a log.
    ///
    /// # Errors
    /// `NotFound` if there is no log of that name; `Unavailable`.
    pub async fn open(env: LogEnv, name: LogName) -> Result<Self> {
        let views = Arc::new(ViewCache::open(name.clone(), env.views.clone()).await?);
        let storage = StorageClient::new(&env);
        let sequencer = Arc::new(SequencerClient::new(name.clone(), env.clone(), views.clone()));
        let appender =
            Appender::new(env.clone(), views.clone(), storage.clone(), sequencer.clone());
        Ok(Self(Arc::new(Inner {
            name,
            env,
            reader: Reader { views: views.clone(), storage: storage.clone() },
            positions: Positions { views: views.clone(), storage, sequencer: sequencer.clone() },
            views,
            sequencer,
            appender: Arc::new(appender),
        })))
    }

    /// Its name.
    pub fn name(&self) -> &LogName {
        &self.0.name
    }

    /// The view that this handle uses.
    pub fn view(&self) -> Arc<View> {
        self.0.views.get()
    }

    /// Appends a record. Returns its position once the record is durable there.
    ///
    /// If the caller drops the future early, the record may still be appended.
    ///
    /// # Errors
    /// `Invalid` for a record of more than `MAX_RECORD_BYTES`. `Unavailable` if the record could
    /// not be appended in time; the message says whether the record may be in the log. After any
    /// other error, such as `Exhausted` from the log's class, the record is not in the log.
    pub async fn append(&self, data: impl AsRef<[u8]>) -> Result<u64> {
        let started = self.0.appender.start(data.as_ref()).await;
        self.appended(started).await
    }

    /// Appends records, each at a position of its own. Returns a result for each, as
    /// [`Log::append`] does.
    ///
    /// The client requests the positions together, so the records are in the given order. They are
    /// also adjacent, unless another client fills or trims a position in between, a target does not
    /// answer, or the sequencer is replaced.
    pub async fn append_batch(&self, records: &[Bytes]) -> Vec<Result<u64>> {
        let started = self.0.appender.start_all(records).await;
        join_all(started.into_iter().map(|started| self.appended(started))).await
    }

    async fn appended(&self, started: Result<oneshot::Receiver<Result<u64>>>) -> Result<u64> {
        let ended = started?.await;
        let stopped = |_| {
            Err(Error::unavailable("the process stopped before the record was appended")
                .during("append"))
        };
        ended.unwrap_or_else(stopped).map_err(|error| error.on(&self.0.name))
    }

    /// Reads a position.
    ///
    /// # Errors
    /// `NotFound` if the position is unwritten; `Corrupt` if its entry is damaged; `Unavailable` if
    /// its target does not answer. If the object of the position was lost, the result is
    /// [`Entry::Lost`].
    pub async fn read(&self, position: u64) -> Result<Entry> {
        let slots = self.0.read(&[position]).await?;
        let entry = slots.into_iter().next().and_then(|slot| slot.entry);
        entry.ok_or_else(|| {
            Error::not_found(format!("position {position} is unwritten"))
                .during("read")
                .on(&self.0.name)
        })
    }

    /// Reads at most `limit` positions from `from` on, up to the tail. The result may have fewer
    /// slots than `limit`; to read on, continue after its last slot. It has at least one slot if
    /// `from` is below the tail and `limit` is not 0.
    ///
    /// # Errors
    /// As for [`Log::read`], except that an unwritten position is a slot without an entry.
    pub async fn read_range(&self, from: u64, limit: usize) -> Result<Vec<ReadSlot>> {
        let limit = limit.min(MAX_READ_POSITIONS) as u64;
        let end = from.saturating_add(limit);
        let mut tail = self.0.views.cached().final_below;
        if tail < end {
            tail = self.tail().await?;
        }
        let positions: Vec<_> = (from..end.min(tail)).collect();
        self.0.read(&positions).await
    }

    /// Streams every entry from `from` on, in order, and then new entries as they are appended,
    /// without end.
    ///
    /// The stream fills a hole after [`Patience::hole`](crate::Patience). An error is an item of
    /// the stream. When the caller polls the stream after an error, it tries again.
    pub fn follow(&self, from: u64) -> Follow {
        follow(self.0.clone(), from)
    }

    /// Fills a position, so that it never holds data. The position may be the tail; then the next
    /// append skips it.
    ///
    /// # Errors
    /// `Exists` if the position holds data; `Invalid` for a position past the tail; `Unavailable`
    /// if the object does not answer in time.
    pub async fn fill(&self, position: u64) -> Result<()> {
        let filled = self.0.positions.fill(position, self.0.deadline()).await;
        match filled.map_err(|error| self.0.explain(error, "fill"))? {
            true => Ok(()),
            false => Err(self.0.explain(
                Error::exists(format!("position {position} holds data, so it cannot be filled"))
                    .with_status(EROFS),
                "fill",
            )),
        }
    }

    /// Trims a position: its data is lost for good. The position may be the tail; then the next
    /// append skips it.
    ///
    /// # Errors
    /// `Invalid` for a position past the tail; `Unavailable` if the object does not answer in time.
    pub async fn trim(&self, position: u64) -> Result<()> {
        let trimmed = self.0.positions.trim(position, self.0.deadline()).await;
        trimmed.map_err(|error| self.0.explain(error, "trim"))
    }

    /// Trims everything up to and including `position`. When this returns, all these positions read
    /// as trimmed. An object that held only such positions keeps nothing but a header of some
    /// bytes.
    ///
    /// # Errors
    /// `Invalid` for a position at or past the tail. After `Unavailable` some of the positions may
    /// be trimmed: try again.
    pub async fn trim_to(&self, position: u64) -> Result<()> {
        let trimmed = self.trim_if_issued(position).await;
        trimmed.map_err(|error| self.0.explain(error, "trim"))
    }

    async fn trim_if_issued(&self, position: u64) -> Result<()> {
        let inner = &self.0;
        if position >= inner.sequencer.readable_tail(inner.deadline()).await? {
            return Err(past_tail(position));
        }
        let deadline = inner.deadline();
        // Read the stored view: only it says which stripes can be forgotten now.
        let view = inner.views.later_than(inner.views.get().epoch()).await?;
        if position < view.kept_from() {
            return Ok(());
        }
        let end = position + 1;
        let stripe_start = view.range_of(position).map_or(view.kept_from(), |range| {
            let place = range.place(position);
            if range.stripe_end(place.stripe) == end {
                end
            } else {
                range.first + place.stripe * range.stripe_positions()
            }
        });
        // The entries must be gone before the view forgets their positions. Afterwards neither a
        // repeated trim nor a removal of the log would find the entries.
        inner.positions.trim_to(&view, position, deadline).await?;
        if stripe_start > view.kept_from() {
            let forget = Reconfiguration::Forget(stripe_start);
            match inner.sequencer.reconfigure(forget, deadline).await {
                // The disk was too full to store a new view. This trim has freed space, so the next
                // trim will remove these positions from the view.
                Err(error) if error.kind() == ErrorKind::Exhausted => {}
                forgotten => drop(forgotten?),
            }
        }
        Ok(())
    }

    /// The position that the next record gets, unless another client appends first. If this client
    /// cannot reach a sequencer, returns the position after the last entry instead. Every
    /// acknowledged record is below the returned position.
    ///
    /// # Errors
    /// `Unavailable` if neither position can be found.
    pub async fn tail(&self) -> Result<u64> {
        let tail = self.0.sequencer.readable_tail(self.0.deadline()).await;
        tail.map_err(|error| self.0.explain(error, "tail"))
    }

    /// Takes the next `count` positions and writes nothing there: they serve as tickets in a strict
    /// order. Readers see them as unwritten until somebody fills them. The sequencer may grant
    /// fewer, but at least one.
    ///
    /// The order holds as long as the log keeps its sequencer. A new sequencer continues after the
    /// last position that is written, filled or trimmed, so it issues unused tickets again.
    ///
    /// # Errors
    /// `Invalid` if `count` is 0; `Unavailable` if the log has no sequencer and none can be found.
    pub async fn take_positions(&self, count: u32) -> Result<Range<u64>> {
        if count == 0 {
            return Err(Error::invalid("the number of positions to take is 0")
                .on(self.name())
                .hint("take at least one"));
        }
        let count = count.min(MAX_TOKENS);
        // A handle that issues positions itself needs no deadline, so it reads no clock.
        if let Some((grant, view)) = self.0.sequencer.next_at_once(count)
            && !grant.is_void_in(&view)
        {
            return Ok(grant.first..grant.end());
        }
        let deadline = self.0.deadline();
        loop {
            let taken = self.0.sequencer.next(count, deadline).await;
            let (grant, view) = taken.map_err(|error| self.0.explain(error, "take-positions"))?;
            if !grant.is_void_in(&view) {
                return Ok(grant.first..grant.end());
            }
        }
    }

    /// Returns the sequencer's exclusive capability if this handle holds it (see
    /// `docs/capabilities.md`). The next client that appends then need not wait for it. Call this
    /// before a process ends. A dropped handle returns the capability by itself.
    pub async fn release(&self) {
        self.0.sequencer.give_back().await;
    }

    /// Seals the log at a new epoch: a sequencer takes over and finds the tail again. Returns the
    /// tail. After that, objects refuse the writes of a client until it has read the new view.
    ///
    /// # Errors
    /// `Unavailable` if an object that must be sealed does not answer.
    pub async fn seal(&self) -> Result<u64> {
        let sealed = self.0.sequencer.recover(self.0.deadline()).await;
        sealed.map_err(|error| self.0.explain(error, "seal"))?;
        self.tail().await
    }

    /// The lowest position that is neither trimmed nor lost, or the tail if there is none.
    ///
    /// # Errors
    /// `Unavailable` if an object that must be asked does not answer.
    pub async fn first_readable(&self) -> Result<u64> {
        let view = self.0.views.later_than(self.view().epoch()).await?;
        let mut at = view.kept_from();
        // This loop is short: the view forgets trimmed stripes, so the first kept position is in
        // the same stripe as the last trimmed one. It is longer only if single positions were
        // trimmed.
        loop {
            let slots = self.read_range(at, MAX_READ_POSITIONS).await?;
            let Some(last) = slots.last() else { return Ok(at) };
            let kept =
                slots.iter().find(|slot| !matches!(slot.entry, Some(Entry::Trimmed | Entry::Lost)));
            match kept {
                Some(kept) => return Ok(kept.position),
                None => at = last.position + 1,
            }
        }
    }

    /// Asks the log's sequencer to change its view.
    ///
    /// # Errors
    /// `Invalid` for an impossible change; `Unavailable`.
    pub async fn reconfigure(&self, change: Reconfiguration) -> Result<()> {
        let changed = self.0.sequencer.reconfigure(change, self.0.deadline()).await;
        changed.map(drop).map_err(|error| self.0.explain(error, "reconfigure"))
    }

    /// Moves the log's sequencer to another node, while clients use the log.
    ///
    /// # Errors
    /// `Invalid` if the node hosts no sequencers. `Conflict` if the node did not take over; then
    /// the sequencer stays where it is. `Unavailable` if the log's sequencer does not answer in
    /// time.
    pub async fn move_sequencer(&self, to: NodeName) -> Result<()> {
        self.hand_over_sequencer(to, ClientRouting::Redirect).await
    }

    /// As [`Log::move_sequencer`]. `routing` says how clients of the log reach the sequencer
    /// afterwards.
    ///
    /// # Errors
    /// As [`Log::move_sequencer`].
    pub async fn hand_over_sequencer(&self, to: NodeName, routing: ClientRouting) -> Result<()> {
        let hosts = self.0.env.nodes.nodes().await?;
        if !hosts.contains(&to) {
            let names: Vec<_> = hosts.iter().map(NodeName::as_str).collect();
            return Err(Error::invalid(format!("node {to} hosts no sequencers"))
                .hint(format!("name one of {}", names.join(", "))));
        }
        let moved = self.0.sequencer.hand_over(to, routing, self.0.deadline()).await;
        moved.map(drop).map_err(|error| self.0.explain(error, "move sequencer"))
    }

    /// The log at a glance.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn stat(&self) -> Result<LogStat> {
        let tail = self.tail().await?;
        let view = self.0.views.later_than(self.view().epoch()).await?;
        let objects = view.ranges().iter().map(|range| {
            let forgotten = view.kept_from().saturating_sub(range.first) / range.stripe_positions();
            range.stripes_before(tail).saturating_sub(forgotten) * range.width()
        });
        Ok(LogStat {
            epoch: view.epoch(),
            tail,
            kept_from: view.kept_from(),
            sequencer: view.sequencer().map(|sequencer| sequencer.node.clone()),
            class: view.class().clone(),
            capability: view.capability().cloned(),
            width: view.layout().width,
            slots: view.layout().slots,
            ranges: view.ranges().len(),
            objects: objects.sum(),
        })
    }
}

/// Makes the first view of a log and seals its objects. The view leaves out the targets that do not
/// answer. If no target answers, the client asks all again and waits twice as long: on a busy
/// computer a target that has just started is slow.
///
/// # Errors
/// `Unavailable` if no target has answered when the time of an operation is over.
async fn sealed_first(
    env: &LogEnv,
    name: &LogName,
    former: Option<&View>,
    options: &LogOptions,
) -> Result<View> {
    let targets = env.placement.targets();
    let layout = options.layout(targets.len() * env.columns as usize);
    let first_range = Random::from_system().below(FIRST_RANGE_BOUND.into()) as u32;
    let (placement, mut avoid) = (&*env.placement, vec![]);
    let (deadline, mut patience) = (Instant::now() + env.patience.operation, SEAL_PATIENCE);
    loop {
        let (pool, class) = (options.pool.clone(), options.class.clone());
        let view = match former {
            Some(former) => former.reborn(pool, class, layout, placement, &avoid)?,
            None => View::first(name.clone(), pool, class, layout, first_range, placement, &avoid)?,
        };
        let again_at = Instant::now() + patience;
        let silent = seal_first(env, &view, patience).await?;
        if silent.is_empty() {
            return Ok(view);
        }
        avoid.extend(silent);
        if targets.iter().all(|target| avoid.contains(target)) {
            if again_at >= deadline {
                return Err(Error::unavailable("no storage target answers")
                    .hint("bring a target back, and try again"));
            }
            sleep_until(again_at).await;
            avoid.clear();
            patience *= 2;
        }
    }
}

impl Inner {
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.env.patience.operation
    }

    fn explain(&self, error: Error, operation: &'static str) -> Error {
        error.during(operation).on(&self.name)
    }

    /// Reads the first of these positions, as many as fit into one answer.
    pub async fn read(&self, positions: &[u64]) -> Result<Vec<ReadSlot>> {
        let entries = self.reader.read(positions, self.deadline()).await;
        let entries = entries.map_err(|error| self.explain(error, "read"))?;
        let slots = positions.iter().zip(entries);
        Ok(slots.map(|(position, entry)| ReadSlot { position: *position, entry }).collect())
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("name", &self.0.name).finish_non_exhaustive()
    }
}
