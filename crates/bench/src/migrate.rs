//! `migrate`: how long clients wait for a busy sequencer that moves from node to node, a thousand times. Every position
//! that was handed out is compared with all others at the end: none may have been handed out twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nacre::{Log, RoleName};
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
/// Tasks of a client that ask for positions, each for one at a time.
const TASKS: usize = 4;
const METADATA_NODES: usize = 2;
/// Moves, whatever was asked for: percentiles need them.
const MOVES: usize = 1000;
/// How often it is looked whether every task has been answered since a move.
const LOOK: Duration = Duration::from_micros(500);
/// A task that is not answered by then never will be.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is aimed at, in milliseconds.
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
            tasks.spawn(Arc::clone(&shared).take_positions(log.clone(), number));
        }
    }
    let (mut still, mut moving) = (vec![], vec![]);
    for turn in 0..MOVES {
        still.push(shared.longest_wait(async { Ok(()) }).await?);
        let to = nodes[(turn + 1) % nodes.len()].clone();
        moving.push(shared.longest_wait(log.move_sequencer(to)).await?);
    }
    shared.is_over.store(true, Ordering::Relaxed);
    let mut positions = vec![];
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|error| Error::unavailable(format!("a client: {error}")))?;
        positions.extend(ended?);
    }
    check_distinct(positions)?;
    for (of, aim) in [(0.5, None), (0.99, Some(AIM_P99_MILLIS)), (1.0, Some(AIM_WORST_MILLIS))] {
        let ours = percentile(&mut moving, of);
        let name = match of {
            1.0 => format!("longest wait of a client, worst of {MOVES} moves"),
            _ => format!("longest wait of a client, p{:.0} of {MOVES} moves", of * 100.0),
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

/// # Errors
/// `Corrupt` if a position was handed out twice.
fn check_distinct(mut positions: Vec<u64>) -> Result<()> {
    positions.sort_unstable();
    match positions.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::corrupt(format!("position {} was handed out twice", pair[0]))),
        None => Ok(()),
    }
}

fn percentile(values: &mut [f64], of: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * of) as usize;
    values[at.min(values.len() - 1)]
}

/// What the tasks share with the one that moves the sequencer.
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

    /// Asks for positions until the bench is over; returns them.
    async fn take_positions(self: Arc<Self>, log: Log, task: usize) -> Result<Vec<u64>> {
        let mut positions = vec![];
        while !self.is_over.load(Ordering::Relaxed) {
            let asked = self.clock.monotonic();
            positions.extend(log.take_positions(1).await?);
            let waited = (self.clock.monotonic() - asked).as_nanos() as u64;
            self.longest.fetch_max(waited, Ordering::Relaxed);
            self.answers[task].fetch_add(1, Ordering::Relaxed);
        }
        Ok(positions)
    }

    /// The longest wait of any task for what was asked while `event` lasted, in milliseconds.
    async fn longest_wait(&self, event: impl Future<Output = Result<()>>) -> Result<f64> {
        self.longest.store(0, Ordering::Relaxed);
        event.await?;
        // The first answer may be to a question from before the event, the second is not.
        let before: Vec<_> = self.counts();
        let answered = async {
            while self.counts().iter().zip(&before).any(|(now, then)| *now < then + 2) {
                sleep(LOOK).await;
            }
        };
        let late = |_| Error::unavailable("a client has no answer any more");
        tokio::time::timeout(PATIENCE, answered).await.map_err(late)?;
        Ok(self.longest.load(Ordering::Relaxed) as f64 / 1e6)
    }

    fn counts(&self) -> Vec<u64> {
        self.answers.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}
