//! The path of appends through a client. Records wait in a queue, get positions, and go to the
//! write queues of their objects.
//!
//! One request for positions is in flight at a time; records that arrive meanwhile share the next.
//! Background tasks do the work, so a caller that stops waiting delays nobody else. Its record may
//! still be appended.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nacre_clock::Random;
use nacre_host::Backoff;
use nacre_object::{Error, ErrorKind, ObjectId, Result, TargetName};
use nacre_telemetry::traced;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use super::append::{Append, Permits};
use super::suspects::{Suspects, Suspicion};
use super::view_cache::ViewCache;
use super::write_queues::{Write, WriteQueues};
use crate::core::{AppendCommand, AppendEvent, Grant};
use crate::env::LogEnv;
use crate::limits::{
    APPEND_OVERHEAD_BYTES, MAX_APPEND_BYTES, MAX_APPENDS, MAX_RECORD_BYTES, MAX_TOKENS,
};
use crate::record::{self, RecordId};
use crate::sequencer::{Reconfiguration, SequencerClient};
use crate::storage::status::{EINVAL, EROFS};
use crate::storage::{Addressed, CallFailure, CallResult, StorageClient};
use crate::view::{EntryLocation, View};

/// Appends records to one log.
#[derive(Debug)]
pub(super) struct Appender {
    pub env: LogEnv,
    pub views: Arc<ViewCache>,
    pub storage: StorageClient,
    pub sequencer: Arc<SequencerClient>,
    pub suspects: Suspects,
    writer: u64,
    next_number: AtomicU64,
    /// Bounds the records in flight, by number and by bytes.
    appends: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    queue: Mutex<TokenQueue>,
    queues: WriteQueues,
    /// Whether a request for a layout without the suspected targets is in flight.
    evading: AtomicBool,
}

#[derive(Debug, Default)]
struct TokenQueue {
    waiting: VecDeque<Append>,
    is_asking: bool,
}

impl Appender {
    pub fn new(
        env: LogEnv,
        views: Arc<ViewCache>,
        storage: StorageClient,
        sequencer: Arc<SequencerClient>,
    ) -> Self {
        let queues = WriteQueues::new(env.batching);
        Self {
            env,
            views,
            storage,
            sequencer,
            suspects: Suspects::default(),
            writer: Random::from_system().next_u64(),
            next_number: AtomicU64::new(0),
            appends: Arc::new(Semaphore::new(MAX_APPENDS)),
            bytes: Arc::new(Semaphore::new(MAX_APPEND_BYTES)),
            queue: Mutex::default(),
            queues,
            evading: AtomicBool::new(false),
        }
    }

    /// Starts to append a record. Waits only while too many records are in flight.
    pub async fn start(self: &Arc<Self>, data: &[u8]) -> Result<oneshot::Receiver<Result<u64>>> {
        check_size(data)?;
        let permits = self.permits(data).await;
        let (append, answered) = self.append_of(data, permits);
        self.enqueue([append]);
        Ok(answered)
    }

    /// Starts to append records, in order.
    pub async fn start_all(
        self: &Arc<Self>,
        records: &[Bytes],
    ) -> Vec<Result<oneshot::Receiver<Result<u64>>>> {
        let mut started = Vec::with_capacity(records.len());
        let mut admitted = Vec::with_capacity(records.len());
        for data in records {
            if let Err(error) = check_size(data) {
                started.push(Err(error));
                continue;
            }
            let permits = match self.permits_now(data) {
                Some(permits) => permits,
                None => {
                    // Send the records admitted so far before waiting. They hold the permits that
                    // this record waits for.
                    self.enqueue(admitted.drain(..));
                    self.permits(data).await
                }
            };
            let (append, answered) = self.append_of(data, permits);
            admitted.push(append);
            started.push(Ok(answered));
        }
        self.enqueue(admitted);
        started
    }

    fn append_of(&self, data: &[u8], permits: Permits) -> (Append, oneshot::Receiver<Result<u64>>) {
        let deadline = Instant::now() + self.env.patience.append;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let id = RecordId { writer: self.writer, number };
        Append::new(id, record::encode(id, data), deadline, permits)
    }

    async fn permits(&self, data: &[u8]) -> Permits {
        let open = "the semaphores are never closed";
        [
            self.appends.clone().acquire_owned().await.expect(open),
            self.bytes.clone().acquire_many_owned(cost_of(data)).await.expect(open),
        ]
    }

    fn permits_now(&self, data: &[u8]) -> Option<Permits> {
        let append = self.appends.clone().try_acquire_owned().ok()?;
        Some([append, self.bytes.clone().try_acquire_many_owned(cost_of(data)).ok()?])
    }

    fn queue(&self) -> MutexGuard<'_, TokenQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues records for positions.
    pub fn enqueue(self: &Arc<Self>, appends: impl IntoIterator<Item = Append>) {
        let mut queue = self.queue();
        queue.waiting.extend(appends);
        if !queue.waiting.is_empty() && !queue.is_asking {
            queue.is_asking = true;
            drop(queue);
            tokio::spawn(self.clone().take_tokens());
        }
    }

    /// Asks for positions until nobody waits for one.
    async fn take_tokens(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        loop {
            let batch: VecDeque<_> = {
                let mut queue = self.queue();
                let count = queue.waiting.len().min(MAX_TOKENS as usize);
                if count == 0 {
                    queue.is_asking = false;
                    return;
                }
                queue.waiting.drain(..count).collect()
            };
            if self.take_tokens_for(batch).await {
                backoff = Backoff::new();
            } else {
                backoff.wait().await;
            }
        }
    }

    /// Takes positions for these appends. Returns whether there was progress.
    async fn take_tokens_for(self: &Arc<Self>, mut batch: VecDeque<Append>) -> bool {
        let deadline = batch.iter().map(|append| append.deadline).min();
        let Some(deadline) = deadline else { return true };
        let span = Append::span_of("token", batch.iter());
        let asked = self.sequencer.next(batch.len() as u32, deadline);
        let asked = traced(span.as_ref(), asked).await;
        drop(span);
        match asked {
            Ok((grant, view)) if grant.is_void_in(&view) => {
                self.requeue_first(batch.into_iter());
                true
            }
            Ok((grant, view)) => {
                let granted = batch.len().min(grant.count as usize);
                let rest = batch.split_off(granted);
                self.requeue_first(rest.into_iter());
                self.dispatch(batch, grant, &view);
                true
            }
            // The time of the oldest record is over; the other records may still have time left.
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Stale) => {
                let (late, rest): (Vec<_>, Vec<_>) = batch.into_iter().partition(Append::is_late);
                late.into_iter().for_each(|append| append.fail(&error));
                self.requeue_first(rest.into_iter());
                false
            }
            Err(error) => {
                batch.into_iter().for_each(|append| append.fail(&error));
                true
            }
        }
    }

    fn requeue_first(&self, appends: impl DoubleEndedIterator<Item = Append>) {
        let mut queue = self.queue();
        for append in appends.rev() {
            queue.waiting.push_front(append);
        }
    }

    /// Gives each record its position and queues it for the object of that position.
    fn dispatch(self: &Arc<Self>, appends: VecDeque<Append>, grant: Grant, view: &View) {
        let sequencer = view.sequencer().map_or(0, |sequencer| sequencer.epoch);
        let mut by_place: HashMap<EntryLocation, Vec<Write>> = HashMap::new();
        let mut homeless = vec![];
        for (mut append, position) in appends.into_iter().zip(grant.first..) {
            let epoch = view.epoch();
            let token = AppendEvent::Token { position, epoch, sequencer };
            let command = append.core.handle(token);
            debug_assert_eq!(command, AppendCommand::Write { position, epoch });
            match view.place(position) {
                Some(place) => {
                    by_place.entry(place).or_default().push(Write { append, position, epoch });
                }
                // Forgotten as trimmed already.
                None => {
                    append.core.handle(AppendEvent::Avoided);
                    homeless.push(append);
                }
            }
        }
        for (place, writes) in by_place {
            if self.queues.push(place, writes) {
                tokio::spawn(self.clone().run_queue(place));
            }
        }
        self.requeue(homeless);
    }

    fn requeue(&self, appends: Vec<Append>) {
        self.queue().waiting.extend(appends);
    }

    /// Writes the records that wait for an object, until none waits.
    async fn run_queue(self: Arc<Self>, place: EntryLocation) {
        loop {
            let batch = self.queues.take(place);
            if batch.is_empty() {
                return;
            }
            self.write_batch(place, batch).await;
        }
    }

    async fn write_batch(self: &Arc<Self>, place: EntryLocation, batch: Vec<Write>) {
        let (late, batch): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|write| write.append.is_late());
        late.into_iter().for_each(|write| write.append.fail_late());
        let Some(epoch) = batch.first().map(|write| write.epoch) else { return };
        let view = self.views.get();
        let Some(object) = view.object(place) else {
            // Forgotten as trimmed since the position was issued.
            return self.give_up_positions(batch);
        };
        if self.is_evaded(&view, &object) {
            return self.give_up_positions(batch);
        }
        let to = Addressed { object: &object, class: view.class(), epoch };
        let outcome = self.call(to, place, &batch).await;
        self.conclude(batch, outcome, object);
    }

    /// Writes records to an object. If the call takes long, other records avoid the object's target
    /// until the call ends.
    async fn call(
        self: &Arc<Self>,
        to: Addressed<'_>,
        place: EntryLocation,
        batch: &[Write],
    ) -> CallResult<Vec<i32>> {
        let entries: Vec<_> =
            batch.iter().map(|write| (write.position, &write.append.entry)).collect();
        let span = Append::span_of("write", batch.iter().map(|write| &write.append));
        let mut call = std::pin::pin!(traced(span.as_ref(), self.storage.write(to, &entries)));
        match timeout(self.env.patience.target, &mut call).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let _suspicion = self.suspect(to.object);
                if self.is_evaded(&self.views.get(), to.object) {
                    self.give_up_positions(self.queues.drain(place));
                }
                call.await
            }
        }
    }

    /// Suspects the target of an object, and starts to move the log away from the target.
    pub fn suspect(self: &Arc<Self>, object: &ObjectId) -> Suspicion {
        let suspicion = self.suspects.suspect(self.env.placement.locate(object));
        self.evade();
        suspicion
    }

    /// Asks the sequencer for a layout without the targets that stay silent. Only one such request
    /// is in flight at a time. Until the log has the new layout, records skip the positions on
    /// these targets.
    fn evade(self: &Arc<Self>) {
        if self.evading.swap(true, Ordering::AcqRel) {
            return;
        }
        let appender = self.clone();
        tokio::spawn(async move {
            let suspects = appender.suspects.all();
            tokio::time::sleep(appender.env.patience.target).await;
            let used = appender.views.get().current_targets(&*appender.env.placement);
            let silent =
                |target: &TargetName| appender.suspects.contains(target) && used.contains(target);
            let avoid: Vec<_> = suspects.into_iter().filter(silent).collect();
            if !avoid.is_empty() {
                let change = Reconfiguration::Relayout { layout: None, avoid };
                let deadline = Instant::now() + appender.env.patience.operation;
                let _undone = appender.sequencer.reconfigure(change, deadline).await;
            }
            appender.evading.store(false, Ordering::Release);
        });
    }

    /// Whether records on this object shall take other positions, because its target does not
    /// answer.
    fn is_evaded(&self, view: &View, object: &ObjectId) -> bool {
        if self.suspects.is_empty() || !self.suspects.contains(&self.env.placement.locate(object)) {
            return false;
        }
        let targets = view.current_targets(&*self.env.placement);
        targets.iter().any(|target| !self.suspects.contains(target))
    }

    fn give_up_positions(self: &Arc<Self>, writes: Vec<Write>) {
        self.enqueue(writes.into_iter().map(|mut write| {
            write.append.core.handle(AppendEvent::Avoided);
            write.append
        }));
    }

    fn conclude(
        self: &Arc<Self>,
        batch: Vec<Write>,
        outcome: CallResult<Vec<i32>>,
        object: ObjectId,
    ) {
        let mut is_silent = false;
        let event_of_all = match outcome {
            Ok(statuses) => {
                let mut unsettled = vec![];
                for (write, status) in batch.into_iter().zip(statuses) {
                    unsettled.extend(conclude_one(write, status));
                }
                return self.settle_all(unsettled, &object, is_silent);
            }
            Err(CallFailure::Failed(error)) => {
                return batch.into_iter().for_each(|write| write.append.fail(&error));
            }
            Err(CallFailure::Stale) => AppendEvent::Stale,
            Err(CallFailure::NoAnswer(_)) => {
                is_silent = true;
                AppendEvent::NoAnswer
            }
            // Nobody has sealed it yet: looking will tell.
            Err(CallFailure::Unsealed) => AppendEvent::Taken,
        };
        let appends = batch.into_iter().map(|mut write| {
            let command = write.append.core.handle(event_of_all);
            (write.append, command)
        });
        self.settle_all(appends.collect(), &object, is_silent);
    }

    fn settle_all(
        self: &Arc<Self>,
        appends: Vec<(Append, AppendCommand)>,
        object: &ObjectId,
        is_silent: bool,
    ) {
        for (append, command) in appends {
            let suspicion = is_silent.then(|| self.suspect(object));
            tokio::spawn(self.clone().settle(append, command, object.clone(), suspicion));
        }
    }
}

/// Ends an append, if the status of its write decides its outcome. Otherwise returns the append
/// with its next command.
fn conclude_one(write: Write, status: i32) -> Option<(Append, AppendCommand)> {
    let Write { mut append, position, .. } = write;
    match status {
        0 => {
            append.core.handle(AppendEvent::Accepted);
            append.end(Ok(position));
            None
        }
        EROFS => {
            let command = append.core.handle(AppendEvent::Taken);
            Some((append, command))
        }
        EINVAL => {
            let error = Error::invalid("the record is too large for the log's class");
            append.fail(&error.hint("split the record"));
            None
        }
        other => {
            append.fail(&Error::from_status(other.min(-1), "the entry could not be written"));
            None
        }
    }
}

fn check_size(data: &[u8]) -> Result<()> {
    if data.len() > MAX_RECORD_BYTES {
        return Err(Error::invalid(format!("a record of {} bytes is too large", data.len()))
            .during("append")
            .hint(format!("split it: at most {MAX_RECORD_BYTES} bytes fit")));
    }
    Ok(())
}

fn cost_of(data: &[u8]) -> u32 {
    (data.len() + APPEND_OVERHEAD_BYTES) as u32
}
