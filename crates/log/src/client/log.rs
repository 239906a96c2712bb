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
use tokio::time::Instant;

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
use crate::sequencer::{Reconfiguration, SequencerClient, dismiss, seal_first};
use crate::storage::StorageClient;
use crate::storage::status::EROFS;
use crate::view::{FIRST_RANGE_BOUND, View};

/// A log. A clone is another handle on the same.
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
    /// Makes a new log and opens it.
    ///
    /// # Errors
    /// `Exists` if there is one of that name; `Invalid` for options out of bounds; `Unavailable`.
    pub async fn create(env: LogEnv, name: LogName, options: LogOptions) -> Result<Self> {
        let exists = || Error::exists(format!("there is a log {name}")).during("create");
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

    /// Removes a log and every record of it. Of each of its objects a header of some bytes is left, and of the
    /// log itself its last view: so that a handle on it that somebody still holds finds neither it nor a log
    /// that is made under its name. Positions of that begin at 0 again.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; `Unavailable`, and then part of it may be done: try again.
    pub async fn remove(env: LogEnv, name: LogName) -> Result<()> {
        let removed = remove(&env, &name).await;
        let view = removed.map_err(|error| error.during("remove").on(&name))?;
        dismiss(&env, &view).await;
        Ok(())
    }

    /// Opens a log.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; `Unavailable`.
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

    /// The view this handle goes by.
    pub fn view(&self) -> Arc<View> {
        self.0.views.get()
    }

    /// Appends a record; answers its position, which was the tail, once it is durable there.
    ///
    /// If this is dropped before it answers the record may be appended all the same.
    ///
    /// # Errors
    /// `Invalid` for a record of more than `MAX_RECORD_BYTES`. `Unavailable` if it could not be
    /// appended in time; its text says whether the record may be in the log. Other kinds as the
    /// class of the log has them, `Exhausted` among them; then it is not in the log.
    pub async fn append(&self, data: impl AsRef<[u8]>) -> Result<u64> {
        let started = self.0.appender.start(data.as_ref()).await;
        self.appended(started).await
    }

    /// Appends records, each at a position of its own; answers for each as [`Log::append`] does.
    ///
    /// Positions are asked for together, so they are in order and adjacent unless somebody else
    /// filled or trimmed one, a target did not answer or the sequencer was replaced meanwhile.
    pub async fn append_batch(&self, records: &[Bytes]) -> Vec<Result<u64>> {
        let started = self.0.appender.start_all(records).await;
        join_all(started.into_iter().map(|started| self.appended(started))).await
    }

    async fn appended(&self, started: Result<oneshot::Receiver<Result<u64>>>) -> Result<u64> {
        let ended = started?.await;
        let stopped = |_| Err(Error::unavailable("the process is stopping").during("append"));
        ended.unwrap_or_else(stopped).map_err(|error| error.on(&self.0.name))
    }

    /// Reads a position.
    ///
    /// # Errors
    /// `NotFound` if it is unwritten; `Corrupt` if what is there is damaged; `Unavailable` if its
    /// target does not answer. A position whose object was lost is no error, see [`Entry::Lost`].
    pub async fn read(&self, position: u64) -> Result<Entry> {
        let slots = self.0.read(&[position]).await?;
        let entry = slots.into_iter().next().and_then(|slot| slot.entry);
        entry.ok_or_else(|| {
            Error::not_found(format!("position {position} is unwritten"))
                .during("read")
                .on(&self.0.name)
        })
    }

    /// Reads positions from `from` on, up to `limit` of them and not past the tail. The answer may
    /// be shorter, but has at least one slot if `from` is below the tail and `limit` is not 0: read
    /// on behind it.
    ///
    /// # Errors
    /// As for [`Log::read`], except that unwritten positions are none.
    pub async fn read_range(&self, from: u64, limit: usize) -> Result<Vec<ReadSlot>> {
        let limit = limit.min(MAX_READ_POSITIONS) as u64;
        let end = from.saturating_add(limit);
        let mut tail = self.0.views.known().final_below;
        if tail < end {
            tail = self.tail().await?;
        }
        let positions: Vec<_> = (from..end.min(tail)).collect();
        self.0.read(&positions).await
    }

    /// Every entry from `from` on, in order, and then each as it is appended, without end.
    ///
    /// A hole is filled after [`Patience::hole`](crate::Patience). An error is an item; the stream
    /// tries again when it is polled again.
    pub fn follow(&self, from: u64) -> Follow {
        follow(self.0.clone(), from)
    }

    /// Makes sure that a position never holds data. It may be the tail; then the next append skips
    /// it.
    ///
    /// # Errors
    /// `Exists` if it holds data; `Invalid` past the tail; `Unavailable`.
    pub async fn fill(&self, position: u64) -> Result<()> {
        let filled = self.0.positions.fill(position, self.0.deadline()).await;
        match filled.map_err(|error| self.0.explain(error, "fill"))? {
            true => Ok(()),
            false => Err(self.0.explain(
                Error::exists(format!("position {position} holds data")).with_status(EROFS),
                "fill",
            )),
        }
    }

    /// Gives up what a position holds. It may be the tail; then the next append skips it.
    ///
    /// # Errors
    /// `Invalid` past the tail; `Unavailable`.
    pub async fn trim(&self, position: u64) -> Result<()> {
        let trimmed = self.0.positions.trim(position, self.0.deadline()).await;
        trimmed.map_err(|error| self.0.explain(error, "trim"))
    }

    /// Gives up everything up to and including `position`. When this returns every position up to
    /// there reads as trimmed; of objects that held nothing else a header of some bytes is left.
    ///
    /// # Errors
    /// `Invalid` at or past the tail; `Unavailable`, and then part of it may be done: try again.
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
        // What is to be forgotten must be found in the view as it is now.
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
        // Nobody looks for what is forgotten: neither who tries again after a failure nor who removes the log.
        // So it must be gone by then.
        inner.positions.trim_to(&view, position, deadline).await?;
        if stripe_start > view.kept_from() {
            let forget = Reconfiguration::Forget(stripe_start);
            match inner.sequencer.reconfigure(forget, deadline).await {
                // The disk is full, and has room by what was trimmed. The next trim has the view forget it.
                Err(error) if error.kind() == ErrorKind::Exhausted => {}
                forgotten => drop(forgotten?),
            }
        }
        Ok(())
    }

    /// The position the next record gets, if nobody is faster. Where no sequencer can be had, or none by whoever
    /// may only read: one past the last entry, below which is all that was acknowledged.
    ///
    /// # Errors
    /// `Unavailable` if neither can be found.
    pub async fn tail(&self) -> Result<u64> {
        let tail = self.0.sequencer.readable_tail(self.0.deadline()).await;
        tail.map_err(|error| self.0.explain(error, "tail"))
    }

    /// Takes the next `count` positions and writes nothing there: tickets in a strict order. To
    /// readers they are unwritten until somebody fills them. May be granted fewer, at least one.
    ///
    /// The order holds as long as the log keeps its sequencer. The next one goes on behind what is
    /// written, filled or trimmed: tickets of which nothing came so far are then given once more.
    ///
    /// # Errors
    /// `Invalid` for no positions at all; `Unavailable` if the log has no sequencer and none can be
    /// found.
    pub async fn take_positions(&self, count: u32) -> Result<Range<u64>> {
        if count == 0 {
            return Err(Error::invalid("no positions to take").on(self.name()));
        }
        let count = count.min(MAX_TOKENS);
        // A handle that issues positions itself reads no clock for a deadline.
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

    /// Gives back what this handle holds of the log's sequencer, see `docs/capabilities.md`. Whoever appends next need not
    /// wait for that then. A process that is about to end calls it; a handle that is dropped gives it back by itself.
    pub async fn release(&self) {
        self.0.sequencer.give_back().await;
    }

    /// Seals the log at a new epoch and has its sequencer recovered; answers the tail. Whoever
    /// holds an older view must look again before anything it writes is accepted.
    ///
    /// # Errors
    /// `Unavailable` if an object that must be sealed does not answer.
    pub async fn seal(&self) -> Result<u64> {
        let sealed = self.0.sequencer.recover(self.0.deadline()).await;
        sealed.map_err(|error| self.0.explain(error, "seal"))?;
        self.tail().await
    }

    /// The lowest position that is neither trimmed nor lost; the tail if all are.
    ///
    /// # Errors
    /// `Unavailable` if an object that must be asked does not answer.
    pub async fn first_readable(&self) -> Result<u64> {
        let view = self.0.views.later_than(self.view().epoch()).await?;
        let mut at = view.kept_from();
        // What is kept begins in the stripe that holds the last position trimmed, unless single ones were.
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

    /// Has the log's sequencer change its view.
    ///
    /// # Errors
    /// `Invalid` for a change that cannot be made; `Unavailable`.
    pub async fn reconfigure(&self, change: Reconfiguration) -> Result<()> {
        let changed = self.0.sequencer.reconfigure(change, self.0.deadline()).await;
        changed.map(drop).map_err(|error| self.0.explain(error, "reconfigure"))
    }

    /// Has another node become the log's sequencer, while the log is used.
    ///
    /// # Errors
    /// `Invalid` if the node hosts no sequencers; `Conflict` if it did not take over, and then the sequencer stays
    /// where it is; `Unavailable`.
    pub async fn move_sequencer(&self, to: NodeName) -> Result<()> {
        self.hand_over_sequencer(to, ClientRouting::Redirect).await
    }

    /// The same. `routing` says how clients of the log reach the sequencer from then on.
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

/// The first view of a log, whose objects are there. A target that is silent is avoided.
async fn sealed_first(
    env: &LogEnv,
    name: &LogName,
    former: Option<&View>,
    options: &LogOptions,
) -> Result<View> {
    let targets = env.placement.targets().len();
    let layout = options.layout(targets * env.columns as usize);
    let first_range = Random::from_system().below(FIRST_RANGE_BOUND.into()) as u32;
    let (placement, mut avoid) = (&*env.placement, vec![]);
    // Each round finds a silent target more, or is the last.
    for _ in 0..=targets {
        let (pool, class) = (options.pool.clone(), options.class.clone());
        let view = match former {
            Some(former) => former.reborn(pool, class, layout, placement, &avoid)?,
            None => View::first(name.clone(), pool, class, layout, first_range, placement, &avoid)?,
        };
        let silent = seal_first(env, &view).await?;
        if silent.is_empty() {
            return Ok(view);
        }
        avoid.extend(silent);
    }
    Err(Error::unavailable("no storage target answers"))
}

impl Inner {
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.env.patience.operation
    }

    fn explain(&self, error: Error, operation: &'static str) -> Error {
        error.during(operation).on(&self.name)
    }

    /// What the first of some positions hold, as many as fit an answer.
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
