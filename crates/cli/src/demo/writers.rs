//! Writers that append the records concurrently. A gate limits how far they get before the next
//! fault, so that each fault meets busy writers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nacre::{Cluster, Log};
use nacre_clock::Clock;
use nacre_object::{Error, Result};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::records::Records;
use super::timeline::Ack;

/// What the writers share.
#[derive(Debug)]
pub struct Work {
    records: Records,
    clock: Arc<dyn Clock>,
    next: AtomicUsize,
    /// How many of the records are appended.
    total: AtomicUsize,
    acknowledged: watch::Sender<usize>,
    /// Records below this may be taken.
    gate: watch::Sender<usize>,
}

impl Work {
    /// All of `records`; none may be taken yet.
    pub fn new(records: Records, clock: Arc<dyn Clock>) -> Arc<Self> {
        let total = AtomicUsize::new(records.lines.len());
        Arc::new(Self {
            records,
            clock,
            next: AtomicUsize::new(0),
            total,
            acknowledged: watch::Sender::new(0),
            gate: watch::Sender::new(0),
        })
    }

    /// The records.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// How many records the writers append: all of them, unless [`Work::stop_at`] has lowered the
    /// number.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Limits the run to the first `total` records. No writer may have taken a later one yet.
    pub fn stop_at(&self, total: usize) {
        self.total.store(total.min(self.records.lines.len()), Ordering::Relaxed);
    }

    /// Stops the run. Writers still append the records that they have taken.
    pub fn stop(&self) {
        self.total.store(0, Ordering::Relaxed);
    }

    /// Lets the writers take records up to the `until`-th.
    pub fn open_gate(&self, until: usize) {
        self.gate.send_replace(until);
    }

    /// Records acknowledged so far, and from now on.
    pub fn acknowledged(&self) -> watch::Receiver<usize> {
        self.acknowledged.subscribe()
    }

    /// Time since the start of the run.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Takes the next record to append, and waits until the gate lets it pass. `None` if no record
    /// is left.
    async fn take(&self) -> Option<usize> {
        let record = self.next.fetch_add(1, Ordering::Relaxed);
        if record >= self.total() {
            return None;
        }
        let mut gate = self.gate.subscribe();
        gate.wait_for(|&until| record < until).await.ok()?;
        (record < self.total()).then_some(record)
    }
}

/// Starts `count` writers, each with its own connection. The acknowledgements of a writer are in
/// the order of its appends.
pub fn start(count: usize, folder: &Path, log: &str, work: &Arc<Work>) -> Writers {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        tasks.spawn(write(folder.to_owned(), log.to_owned(), Arc::clone(work)));
    }
    Writers { tasks, done: Vec::new() }
}

/// Running writers.
#[derive(Debug)]
pub struct Writers {
    tasks: JoinSet<Result<Vec<Ack>>>,
    done: Vec<Vec<Ack>>,
}

impl Writers {
    /// Waits for `event` while the writers run.
    ///
    /// # Errors
    /// The error of `event`, or of a writer that failed.
    pub async fn during<T>(&mut self, event: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::pin!(event);
        loop {
            tokio::select! {
                outcome = &mut event => return outcome,
                Some(ended) = self.tasks.join_next() => self.note_end(ended)?,
            }
        }
    }

    /// Waits until all writers are done, and returns the acknowledgements of each.
    ///
    /// # Errors
    /// The error of a writer that failed.
    pub async fn finish(mut self) -> Result<Vec<Vec<Ack>>> {
        while let Some(ended) = self.tasks.join_next().await {
            self.note_end(ended)?;
        }
        Ok(self.done)
    }

    fn note_end(&mut self, ended: Result<Result<Vec<Ack>>, JoinError>) -> Result<()> {
        let acks = ended
            .map_err(|error| Error::unavailable(format!("a writer ended early: {error}")))??;
        self.done.push(acks);
        Ok(())
    }
}

async fn write(folder: PathBuf, log: String, work: Arc<Work>) -> Result<Vec<Ack>> {
    let cluster = Cluster::connect(&folder).await?;
    let log: Log = cluster.log(&log).await?;
    let mut acks = Vec::new();
    while let Some(record) = work.take().await {
        let issued = work.now();
        let position = log.append(work.records.lines[record].clone()).await?;
        acks.push(Ack { record, position, issued, acked: work.now() });
        work.acknowledged.send_modify(|count| *count += 1);
    }
    Ok(acks)
}
