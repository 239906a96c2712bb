//! `migrate`: moves a busy sequencer from node to node a thousand times, and measures how long
//! appends wait for it. At the end it reads every record back. Each record must be in the log once,
//! at the position that its client got.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nacre::{Entry, Log, RoleName};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, NodeName, Result};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::append::new_log;
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;
use crate::scratch::{self, ScratchCluster};

/// Clients, each with connections of its own.
const CLIENTS: usize = 4;
/// Tasks of a client that append, each one record at a time.
const TASKS: usize = 4;
const METADATA_NODES: usize = 2;
/// Number of moves, whatever `--rounds` says: percentiles need many.
const MOVES: usize = 1000;
/// Positions read at a time at the end.
const READ_PAGE: usize = 1024;
/// The interval at which the bench checks whether every task has had an answer since a move.
const LOOK: Duration = Duration::from_micros(500);
/// A task without an answer after this time fails the bench.
const PATIENCE: Duration = Duration::from_secs(30);
/// The targets for the waits, in milliseconds.
const AIM_P99_MILLIS: f64 = 50.0;
const AIM_WORST_MILLIS: f64 = 100.0;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster =
        ScratchCluster::start_with_metadata(folder.path(), METADATA_NODES, &setup.program).await?;
    let outcome = measure(&cluster, report).await;
    cluster.stop().await;
    outcome
}

async fn measure(cluster: &ScratchCluster, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let log = new_log(&cluster.client().await?, "moving").await?;
    let nodes: Vec<NodeName> = cluster
        .supervisor
        .cluster()
        .with_role(RoleName::Metadata)
        .map(|entry| entry.node_name())
        .collect::<Result<_>>()?;
    log.move_sequencer(nodes[0].clone()).await?;
    let shared = Arc::new(Shared::new());
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let log = cluster.client().await?.log(log.name().as_str()).await?;
        for task in 0..TASKS {
            let number = client * TASKS + task;
            tasks.spawn(Arc::clone(&shared).append(log.clone(), number));
        }
    }
    let (mut still, mut moving) = (vec![], vec![]);
    for turn in 0..MOVES {
        still.push(shared.longest_wait(async { Ok(()) }).await?);
        let to = nodes[(turn + 1) % nodes.len()].clone();
        moving.push(shared.longest_wait(log.move_sequencer(to)).await?);
    }
    shared.is_over.store(true, Ordering::Relaxed);
    let mut told = vec![];
    while let Some(ended) = tasks.join_next().await {
        let ended =
            ended.map_err(|error| Error::unavailable(format!("a client ended early: {error}")))?;
        told.extend(ended?);
    }
    check(&log, told).await?;
    for (of, aim) in [(0.5, None), (0.99, Some(AIM_P99_MILLIS)), (1.0, Some(AIM_WORST_MILLIS))] {
        let ours = percentile(&mut moving, of);
        let name = match of {
            1.0 => format!("longest wait of an append, worst of {MOVES} moves"),
            _ => format!("longest wait of an append, p{:.0} of {MOVES} moves", of * 100.0),
        };
        let figure = match aim {
            Some(aim) => {
                let of = ("migrate", name, "ms");
                Figure::new(of, Better::Lower, ours, ("the aim", aim)).aiming_at(1.0)
            }
            None => {
                let baseline = ("the same time without a move", median(still.clone()));
                Figure::new(("migrate", name, "ms"), Better::Lower, ours, baseline)
            }
        };
        report(figure);
    }
    Ok(())
}

/// Reads all records back, and compares them with the acknowledged ones.
///
/// # Errors
/// `Corrupt` if a record is missing, is there twice, or is at another position than the one that
/// its client got.
async fn check(log: &Log, told: Vec<(u64, String)>) -> Result<()> {
    let mut told: BTreeMap<u64, String> = told.into_iter().collect();
    let (tail, mut at) = (log.tail().await?, 0);
    while at < tail {
        for slot in log.read_range(at, READ_PAGE).await? {
            at = slot.position + 1;
            let Some(Entry::Data(data)) = slot.entry else { continue };
            if told.remove(&slot.position).is_none_or(|record| data != record.as_bytes()) {
                let text = format!(
                    "position {} holds a record that no client has had acknowledged there",
                    slot.position
                );
                return Err(Error::corrupt(text));
            }
        }
    }
    match told.first_key_value() {
        Some((position, _)) => Err(Error::corrupt(format!(
            "the acknowledged record at position {position} is missing"
        ))),
        None => Ok(()),
    }
}

fn percentile(values: &mut [f64], of: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * of) as usize;
    values[at.min(values.len() - 1)]
}

/// The data that the appending tasks share with the task that moves the sequencer.
struct Shared {
    clock: SystemClock,
    is_over: AtomicBool,
    /// The longest wait since it was last set to 0, in nanoseconds.
    longest: AtomicU64,
    /// How many answers each task has had.
    answers: Vec<AtomicU64>,
}

impl Shared {
    fn new() -> Self {
        let answers = (0..CLIENTS * TASKS).map(|_| AtomicU64::new(0)).collect();
        Self {
            clock: SystemClock::default(),
            is_over: AtomicBool::new(false),
            longest: AtomicU64::new(0),
            answers,
        }
    }

    /// Appends until the bench is over; returns the records with their positions.
    async fn append(self: Arc<Self>, log: Log, task: usize) -> Result<Vec<(u64, String)>> {
        let mut told = vec![];
        while !self.is_over.load(Ordering::Relaxed) {
            let record = format!("record {} of task {task}", told.len());
            let asked = self.clock.monotonic();
            told.push((log.append(&record).await?, record));
            let waited = (self.clock.monotonic() - asked).as_nanos() as u64;
            self.longest.fetch_max(waited, Ordering::Relaxed);
            self.answers[task].fetch_add(1, Ordering::Relaxed);
        }
        Ok(told)
    }

    /// The longest wait of any task for an append sent while `event` lasted, in milliseconds.
    async fn longest_wait(&self, event: impl Future<Output = Result<()>>) -> Result<f64> {
        self.longest.store(0, Ordering::Relaxed);
        event.await?;
        // A task's first answer may belong to a request from before the event; its second does not.
        let before: Vec<_> = self.counts();
        let answered = async {
            while self.counts().iter().zip(&before).any(|(now, then)| *now < then + 2) {
                sleep(LOOK).await;
            }
        };
        let late = |_| Error::unavailable("a client has waited too long for an answer");
        tokio::time::timeout(PATIENCE, answered).await.map_err(late)?;
        Ok(self.longest.load(Ordering::Relaxed) as f64 / 1e6)
    }

    fn counts(&self) -> Vec<u64> {
        self.answers.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}
