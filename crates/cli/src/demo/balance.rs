//! `nacre demo --balance`: a policy spreads the sequencers of busy logs over three nodes, while
//! clients append.
//!
//! 1. Clients append to three logs, whose sequencers are all on one node.
//! 2. The demo installs a balancer policy. The policy moves sequencers to the idle nodes.
//! 3. The demo kills the node that received a sequencer last. Its supervisor starts it again.
//! 4. The demo reads every record back, and compares it with the acknowledged records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, Log, LogOptions, ProgramId, ProgramKind, RoleName};
use nacre_balance::BalancerSettings;
use nacre_clock::{Clock, SystemClock};
use nacre_node::Supervisor;
use nacre_object::{Error, NodeName, Result};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::STEP_DEADLINE;
use super::faults::install;
use super::log_demo::{passed, read_all};
use super::records::Records;
use super::timeline::{Ack, Latency};
use super::verify::{Verdict, verify};
use super::writers::{self, Work, Writers};
use crate::out::{Out, note, table};

/// The logs.
const LOGS: [&str; 3] = ["orders", "payments", "clicks"];
/// Nodes that host sequencers.
pub(super) const METADATA_NODES: usize = 3;
/// The one storage target: the disk is one.
pub(super) const TARGETS: usize = 1;
/// Writers of each log.
const WRITERS: usize = 8;
/// Records there are for each log: more than are appended.
const RECORDS: usize = 400_000;
/// How long clients append before the policy, and after the last fault.
const CALM: Duration = Duration::from_secs(5);
/// The time between two decisions of the policy. It is short because somebody is watching.
const TICK: Duration = Duration::from_secs(1);
/// After a fault, a log counts as recovered once it has taken this many records.
const WHOLE_AGAIN: usize = 500;
/// How often the demo checks where the sequencers are.
const LOOK: Duration = Duration::from_millis(50);
/// The policy.
const POLICY: &str = "sequencers";
const SOURCE: &str = include_str!("../../../../programs/balancer/sequencers.lua");

/// What the demo prints at the end.
#[derive(Debug, Serialize)]
struct BalanceReport {
    seconds: Vec<Second>,
    logs: BTreeMap<String, LogReport>,
    /// The faults and changes, with their times in seconds since the first append.
    events: Vec<(f64, String)>,
}

/// One second of the run.
#[derive(Debug, Serialize)]
struct Second {
    at_seconds: u64,
    /// For each log: the number of records appended in this second, and the node of its sequencer
    /// at the end of the second.
    logs: BTreeMap<String, (usize, String)>,
}

/// One log, at the end.
#[derive(Debug, Serialize)]
struct LogReport {
    latency: Latency,
    verdict: Verdict,
}

/// A log that is appended to.
struct Busy {
    log: Log,
    work: Arc<Work>,
}

/// Plays the demo on a cluster that runs.
pub(super) async fn play(supervisor: &Supervisor, out: Out) -> Result<()> {
    let folder = supervisor.cluster().folder();
    let cluster = Cluster::connect(folder).await?;
    cluster.create_default_pools().await?;
    let nodes = hosts(supervisor.cluster())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let mut stage = Stage { supervisor, cluster, busy: vec![], events: vec![], clock };
    for name in LOGS {
        stage.add_log(name, &nodes[0]).await?;
    }
    note(&format!("the sequencers of {} all sit on {}", LOGS.join(", "), nodes[0]));
    let mut writers = vec![];
    for busy in &stage.busy {
        busy.work.open_gate(usize::MAX);
        writers.push(writers::start(WRITERS, folder, busy.log.name().as_str(), &busy.work));
    }
    let started = stage.clock.monotonic();
    let watched: Vec<_> =
        stage.busy.iter().map(|busy| (busy.log.clone(), Arc::clone(&busy.work))).collect();
    let cluster = stage.cluster.clone();
    let mut seconds = vec![];
    tokio::select! {
        told = stage.tell(started) => told?,
        ended = all_writers(&mut writers) => return Err(ended),
        never = second_by_second(&cluster, &watched, &mut seconds) => never?,
    }
    stage.busy.iter().for_each(|busy| busy.work.stop());
    note("reading all records back");
    let mut logs = BTreeMap::new();
    for (busy, writers) in stage.busy.iter().zip(writers) {
        let told = writers.finish().await?;
        logs.insert(busy.log.name().to_string(), busy.report(&told, folder).await?);
    }
    let report = BalanceReport { seconds, logs, events: stage.events };
    out.show(&report, || report.text())?;
    if report.holds() {
        return Ok(());
    }
    Err(Error::corrupt("acknowledged records were read back wrong or not at all")
        .hint("this is a bug of nacre: report it with the output above and the command line"))
}

/// Returns the error of the first writer that gives up.
async fn all_writers(writers: &mut [Writers]) -> Error {
    let never = writers
        .iter_mut()
        .map(|writers| Box::pin(writers.during(std::future::pending::<Result<()>>())));
    match futures::future::select_all(never).await.0 {
        Err(error) => error,
        Ok(()) => Error::unavailable("the writers ended before the demo did"),
    }
}

/// The nodes that host sequencers, by the names that the cluster has for them.
fn hosts(file: &ClusterFile) -> Result<Vec<NodeName>> {
    file.with_role(RoleName::Metadata).map(|entry| entry.node_name()).collect()
}

/// Records for each second how many records each log took, and where its sequencer is. Returns only
/// on an error.
async fn second_by_second(
    cluster: &Cluster,
    logs: &[(Log, Arc<Work>)],
    seconds: &mut Vec<Second>,
) -> Result<()> {
    let mut before = vec![0; logs.len()];
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    for at_seconds in 1.. {
        ticks.tick().await;
        let mut second = BTreeMap::new();
        for ((log, work), before) in logs.iter().zip(&mut before) {
            let count = *work.acknowledged().borrow();
            let node = sequencer_of(cluster, log).await?;
            let node = node.map_or_else(|| "nowhere".to_owned(), |node| node.to_string());
            second.insert(log.name().to_string(), (count - *before, node));
            *before = count;
        }
        let total: usize = second.values().map(|(count, _)| count).sum();
        let logs = second.iter().map(|(log, (count, node))| format!("{log} {count}/s on {node}"));
        let logs = logs.collect::<Vec<_>>().join(", ");
        note(&format!("{at_seconds:3} s: {total} records/s ({logs})"));
        seconds.push(Second { at_seconds, logs: second });
    }
    Ok(())
}

/// The node that the stored view of a log names.
async fn sequencer_of(cluster: &Cluster, log: &Log) -> Result<Option<NodeName>> {
    let view = cluster.log_env().views.current(log.name()).await?;
    Ok(view.and_then(|view| view.sequencer().map(|sequencer| sequencer.node.clone())))
}

struct Stage<'a> {
    supervisor: &'a Supervisor,
    cluster: Cluster,
    busy: Vec<Busy>,
    events: Vec<(f64, String)>,
    clock: Arc<dyn Clock>,
}

impl Stage<'_> {
    /// Makes a log whose sequencer sits on a node.
    async fn add_log(&mut self, name: &str, node: &NodeName) -> Result<()> {
        let log = self.cluster.create_log(name, LogOptions::default()).await?;
        log.tail().await?;
        log.move_sequencer(node.clone()).await?;
        let line = |number: usize| Bytes::from(format!("{name} {number:06}"));
        let lines = (0..RECORDS).map(line).collect();
        let records = Records { origin: "the demo".to_owned(), lines, cut: false };
        let work = Work::new(records, Arc::clone(&self.clock));
        self.busy.push(Busy { log, work });
        Ok(())
    }

    /// What is done while clients append.
    async fn tell(&mut self, started: Duration) -> Result<()> {
        sleep(CALM).await;
        let program = ProgramId::new(ProgramKind::Balancer, POLICY.parse()?);
        let version = install(&self.cluster, &program, SOURCE).await?;
        let settings = BalancerSettings { policy: Some(POLICY.parse()?), tick: TICK };
        settings.store(self.cluster.maps()).await?;
        self.event(started, format!("policy {program} version {version} is on"));
        let last =
            self.within_deadline("the policy has not spread the sequencers", self.spread()).await?;
        let node = sequencer_of(&self.cluster, &self.busy[last].log).await?;
        let node =
            node.ok_or_else(|| Error::not_found("no node serves the sequencer of the demo's log"))?;
        self.event(started, "the sequencers are on three nodes".to_owned());
        let entry = self.supervisor.cluster().known(&node);
        let name =
            entry.ok_or_else(|| Error::not_found("the sequencer's node is not in this folder"))?;
        // It stays down until another node has taken the sequencer over.
        self.supervisor.kill(&name.name, true).await?;
        let log = self.busy[last].log.name().clone();
        self.event(started, format!("{node}, which received the sequencer of {log}, is killed"));
        let work = &self.busy[last].work;
        let mark = *work.acknowledged().borrow() + WHOLE_AGAIN;
        self.within_deadline("the log is not whole again", passed(work, mark)).await?;
        let other = sequencer_of(&self.cluster, &self.busy[last].log).await?;
        let other = other.map_or_else(|| "nowhere".to_owned(), |node| node.to_string());
        self.event(started, format!("{log} takes records again, on {other}"));
        self.supervisor.resume(&name.name).await?;
        self.event(started, format!("{node} is started again"));
        self.within_deadline("the sequencers are not spread again", self.spread()).await?;
        self.event(started, "the sequencers are on three nodes again".to_owned());
        sleep(CALM).await;
        Ok(())
    }

    fn event(&mut self, started: Duration, what: String) {
        note(&what);
        let at = self.clock.monotonic().saturating_sub(started);
        self.events.push((at.as_secs_f64(), what));
    }

    /// Waits until each log's sequencer is on a different node. Returns the log whose sequencer
    /// moved last.
    async fn spread(&self) -> Result<usize> {
        let mut last = 0;
        let mut before: Vec<Option<NodeName>> = vec![];
        loop {
            let mut nodes = vec![];
            for busy in &self.busy {
                nodes.push(sequencer_of(&self.cluster, &busy.log).await?);
            }
            let moved = nodes.iter().zip(&before).position(|(now, then)| now != then);
            last = moved.unwrap_or(last);
            let distinct: BTreeSet<_> = nodes.iter().flatten().collect();
            if distinct.len() == LOGS.len() {
                return Ok(last);
            }
            before = nodes;
            sleep(LOOK).await;
        }
    }

    async fn within_deadline<T>(
        &self,
        what: &str,
        step: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let late = Error::unavailable(format!("{what} after {} s", STEP_DEADLINE.as_secs()));
        timeout(STEP_DEADLINE, step).await.unwrap_or(Err(late))
    }
}

impl Busy {
    async fn report(&self, told: &[Vec<Ack>], folder: &Path) -> Result<LogReport> {
        let read = read_all(folder, self.log.name().as_str()).await?;
        let verdict = verify(&self.work.records().lines, told, &read);
        Ok(LogReport { latency: Latency::of(told.iter().flatten()), verdict })
    }
}

impl BalanceReport {
    fn holds(&self) -> bool {
        self.logs.values().all(|log| log.verdict.holds())
    }

    fn text(&self) -> String {
        let rows: Vec<_> = self
            .logs
            .iter()
            .map(|(name, LogReport { latency, verdict })| {
                vec![
                    name.clone(),
                    verdict.acknowledged.to_string(),
                    verdict.found.to_string(),
                    verdict.missing.to_string(),
                    verdict.doubled.to_string(),
                    verdict.out_of_order.to_string(),
                    format!("{:.2}", latency.seconds_p50 * 1e3),
                    format!("{:.2}", latency.seconds_p99 * 1e3),
                    format!("{:.2}", latency.seconds_max * 1e3),
                ]
            })
            .collect();
        let header = [
            "log",
            "records",
            "read back",
            "missing",
            "doubled",
            "out of order",
            "p50 ms",
            "p99 ms",
            "max ms",
        ];
        let word = if self.holds() { "verified" } else { "NOT verified" };
        let (found, logs) = (self.logs.values().map(|log| log.verdict.found), self.logs.len());
        format!(
            "{}\n\n{word}: {} records of {logs} logs read back once and equal, in position order",
            table(&header, &rows),
            found.sum::<usize>()
        )
    }
}
