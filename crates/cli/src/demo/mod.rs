//! `nacre demo`: shows nacre's main use from end to end, with nothing simulated.
//!
//! A cluster of real processes runs in a scratch folder. The log's storage interface is installed
//! as a program. Writers append the records of a real file. Meanwhile the demo replaces the
//! program, kills the sequencer's process, and kills a storage target's process. On Ceph it kills
//! the OSD that serves the log's object, and the leading monitor, instead of a target. At the end
//! it reads all records back, and compares them with the acknowledged ones.
//!
//! Each fault begins when the writers have appended a certain number of records. Until it has
//! happened, the writers may append at most half of the records that lie between this fault and the
//! next. So each fault meets busy writers, even if the input is short.

mod balance;
mod dev_ceph;
mod interface;
mod plan;
mod progress;
mod records;
mod report;
mod routes;
mod slo;
mod timeline;
mod verify;
mod writers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, Entry, Layout, Log, ProgramId, RoleName};
use nacre_clock::{Clock, SystemClock};
use nacre_node::Supervisor;
use nacre_object::{Error, ObjectId, Result};

use self::dev_ceph::DevCeph;
use self::interface::{ADDED_METHOD, Interface};
use self::plan::{MEASURED, records_to_append};
use self::progress::Progress;
use self::records::Records;
use self::report::{Event, Report, Run};
use self::timeline::Ack;
use self::verify::verify;
use self::writers::{Work, Writers};
use crate::commands::up::this_program;
use crate::engine::Engine;
use crate::out::{Out, note};
use crate::signals::{Interrupts, interrupted};

/// The log's name.
const LOG: &str = "demo";
/// Storage targets, each a process.
const TARGETS: usize = 3;
/// Records of a quick run.
const QUICK_RECORDS: usize = 20_000;
/// The demo fails if a fault takes longer than this.
const STEP_DEADLINE: Duration = Duration::from_secs(60);
/// Positions read at a time at the end.
const READ_PAGE: usize = 1024;

/// The arguments of `nacre demo`
#[derive(Debug, clap::Args)]
pub struct DemoArguments {
    /// Append the lines of this file; `-` is standard input. Default: Debian's package database
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Number of concurrent writers
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    writers: u16,
    /// Append at most N records (default: as many as this machine appends in about 45 s)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    records: Option<u32>,
    /// Append only 20,000 records at most, which takes some seconds
    #[arg(long, conflicts_with = "records")]
    quick: bool,
    /// The program that stores the log's entries in objects
    #[arg(long, value_enum, default_value_t = Interface::Brados)]
    interface: Interface,
    /// Show balancing instead: the sequencers of three busy logs, which issue the logs' positions,
    /// are on one node. A policy spreads them while clients append, and a node is killed
    #[arg(long, conflicts_with_all = ["input", "writers", "records", "quick", "interface"])]
    balance: bool,
    /// Show tail latencies instead: two tenants are promised a latency, and a third is refused. A
    /// fourth sends as much as it can, first while promises are not enforced, then while they are
    #[arg(long, conflicts_with_all = ["input", "writers", "records", "quick", "interface", "balance"])]
    slo: bool,
    /// Show routes instead: a storage target is overloaded twice. The second time, rules send its
    /// writes to other targets
    #[arg(long, conflicts_with_all = ["input", "writers", "records", "interface", "balance", "slo", "dev_ceph"])]
    routes: bool,
    /// Keep the cluster running after the demonstration, until interrupted
    #[arg(long)]
    keep: bool,
    /// Keep the data in the Ceph cluster that `scripts/ceph-cluster` runs in this folder, and kill
    /// its daemons instead of nacre's nodes
    #[arg(long, value_name = "DIR", requires = "ceph_cluster")]
    dev_ceph: Option<PathBuf>,
    /// The script `scripts/ceph-cluster`, which starts and stops the daemons
    #[arg(long, value_name = "PROGRAM", requires = "dev_ceph")]
    ceph_cluster: Option<PathBuf>,
}

/// What a demo shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// A log under load, with faults.
    Log,
    /// A policy that spreads sequencers.
    Balance,
    /// Tail latencies that are kept.
    Slo,
    /// Writes that go elsewhere.
    Routes,
}

impl Show {
    /// How many storage and metadata nodes the demonstration needs.
    fn nodes(self, engine: &Engine) -> (usize, usize) {
        match (self, engine) {
            (Self::Log, _) => (TARGETS, 1),
            (Self::Balance, Engine::Embedded) => (balance::TARGETS, balance::METADATA_NODES),
            (Self::Balance, Engine::Ceph(_)) => (balance::METADATA_NODES, 0),
            (Self::Slo, Engine::Embedded) => (slo::TARGETS, 1),
            (Self::Routes, _) => (routes::TARGETS, 1),
            // One gateway: its targets are the OSDs.
            (Self::Slo, Engine::Ceph(_)) => (1, 0),
        }
    }
}

impl DemoArguments {
    fn show(&self) -> Show {
        match self {
            Self { balance: true, .. } => Show::Balance,
            Self { slo: true, .. } => Show::Slo,
            Self { routes: true, .. } => Show::Routes,
            _ => Show::Log,
        }
    }

    /// How many records were asked for. Without a number the rate decides.
    fn limit(&self) -> Option<usize> {
        let quick = self.quick.then_some(QUICK_RECORDS);
        quick.or(self.records.map(|records| records as usize))
    }

    fn ceph(&self) -> Option<DevCeph> {
        Some(DevCeph::new(self.ceph_cluster.as_ref()?, self.dev_ceph.as_ref()?))
    }

    fn engine(&self) -> Result<Engine> {
        match &self.dev_ceph {
            Some(folder) => format!("ceph:{}", folder.join("ceph.conf").display()).parse(),
            None => Ok(Engine::Embedded),
        }
    }
}

/// Runs the demo.
pub async fn run(arguments: DemoArguments, out: Out) -> Result<()> {
    let show = arguments.show();
    let records = match show {
        Show::Log => Some(records_of(&arguments)?),
        Show::Balance | Show::Slo | Show::Routes => None,
    };
    let scratch = tempfile::Builder::new()
        .prefix("nacre-demo.")
        .permissions(nacre_files::folder_permissions())
        .tempdir()
        .map_err(|error| Error::unavailable(format!("cannot make a scratch folder: {error}")))?;
    let engine = arguments.engine()?;
    let (storage, metadata) = show.nodes(&engine);
    let layout =
        Layout { engine: engine.to_entry(), storage, metadata, addresses: vec![], sockets: true };
    let file = ClusterFile::lay_out(scratch.path(), &layout)?;
    let interrupts = Interrupts::hear()?;
    let nothing_verified = || interrupted("interrupted; nothing was verified");
    let program = this_program()?;
    let (first, second) = (interrupts.first(), interrupts.second());
    let started = Supervisor::start_unless(file, &program, 0, first, second).await?;
    let mut supervisor = started.ok_or_else(nothing_verified)?;
    let folder = scratch.path().display();
    note(&match &engine {
        Engine::Embedded => {
            format!("a cluster of {storage} storage and {metadata} metadata nodes in {folder}")
        }
        Engine::Ceph(entry) => format!("{storage} nodes in {folder} whose data is kept in {entry}"),
    });
    let ceph = arguments.ceph();
    let stage = Stage { supervisor: &supervisor, arguments: &arguments, ceph };
    let outcome = tokio::select! {
        played = stage.perform(records, out) => played,
        () = interrupts.first() => Err(nothing_verified()),
    };
    if arguments.keep && outcome.is_ok() {
        note(&format!(
            "the cluster stays up: try `nacre --cluster {} log stat {LOG}`; stop it with Ctrl-C",
            scratch.path().display()
        ));
        interrupts.first().await;
    }
    supervisor.stop_unless_hurried(interrupts.second()).await;
    outcome
}

/// The records to append.
fn records_of(arguments: &DemoArguments) -> Result<Records> {
    let limit = arguments.limit();
    let records = Records::load(arguments.input.as_deref(), limit)?;
    let cut = if records.cut { " (the first of them)" } else { "" };
    let most = if limit.is_none() { "at most " } else { "" };
    note(&format!("{most}{} records of {}{cut}", records.lines.len(), records.origin));
    Ok(records)
}

fn conclude(report: &Report, out: Out) -> Result<()> {
    out.show(report, || format!("{}\n\n{}", report.table(), report.last_line()))?;
    if report.verdict().holds() {
        return Ok(());
    }
    Err(Error::corrupt("acknowledged records were read back wrong or not at all")
        .hint("this is a bug of nacre: report it with the output above and the command line"))
}

struct Stage<'a> {
    supervisor: &'a Supervisor,
    arguments: &'a DemoArguments,
    /// What keeps the data, if that is not the supervisor's nodes.
    ceph: Option<DevCeph>,
}

impl Stage<'_> {
    /// Runs the main demonstration with these records. Without records, runs the one that the
    /// arguments choose.
    async fn perform(&self, records: Option<Records>, out: Out) -> Result<()> {
        match records {
            Some(records) => conclude(&self.play(records).await?, out),
            None if self.arguments.routes => {
                routes::play(self.supervisor, self.arguments.quick, out).await
            }
            None if self.arguments.slo => slo::play(self.supervisor, out).await,
            None => balance::play(self.supervisor, out).await,
        }
    }

    async fn play(&self, records: Records) -> Result<Report> {
        let folder = self.supervisor.cluster().folder();
        let cluster = Cluster::connect(folder).await?;
        cluster.create_default_pools().await?;
        let interface = self.arguments.interface;
        let program = interface.program();
        let version = install(&cluster, &program, interface.source()).await?;
        note(&format!("installed the storage interface: program {program} version {version}"));
        let log = cluster.create_log(LOG, interface.log_options()?).await?;

        let work = Work::new(records, Arc::new(SystemClock::default()) as Arc<dyn Clock>);
        let started = work.now();
        let count = usize::from(self.arguments.writers);
        let writers = writers::start(count, folder, LOG, &work);
        let progress = Progress::new();
        let (told, events) = tokio::select! {
            appended = self.append(writers, &cluster, &log, &work, progress) => appended?,
            never = progress.follow(&work) => never,
        };

        progress.note("reading all records back");
        let reading = work.now();
        let read = read_all(folder, LOG).await?;
        let reading = work.now() - reading;
        let lines = &work.records().lines[..work.total()];
        let verdict = verify(lines, &told, &read);
        let bytes = lines.iter().map(Bytes::len).sum();
        let events = &events;
        Ok(Report::new(Run { bytes, told: &told, events, started, reading, verdict }))
    }

    /// Lets the writers append the records, and causes a fault after each quarter of them. Returns
    /// each writer's acknowledgements, and the faults.
    async fn append(
        &self,
        mut writers: Writers,
        cluster: &Cluster,
        log: &Log,
        work: &Work,
        progress: Progress,
    ) -> Result<(Vec<Vec<Ack>>, Vec<Event>)> {
        work.open_gate(gate_before(work, 1));
        if self.arguments.limit().is_none() {
            writers.during(measure(work, progress)).await?;
        }
        let total = work.total();
        let mut events = Vec::new();
        for (quarter, fault) in [(1, Fault::Program), (2, Fault::Sequencer), (3, Fault::Target)] {
            work.open_gate(gate_before(work, quarter));
            writers.during(passed(work, total * quarter / 4)).await?;
            let at = work.now();
            // Open the gate when the fault begins, so that the fault meets busy writers.
            work.open_gate((total * (quarter + 1)) / 4);
            let step = tokio::time::timeout(STEP_DEADLINE, self.inflict(fault, cluster, log, work));
            let step = async { step.await.unwrap_or_else(|_| Err(hangs(fault))) };
            let what = writers.during(step).await?;
            progress.note(&what);
            events.push(Event { what, at });
        }
        work.open_gate(total);
        Ok((writers.finish().await?, events))
    }

    /// Causes a fault, and waits until the cluster has recovered. Returns what was done.
    async fn inflict(
        &self,
        fault: Fault,
        cluster: &Cluster,
        log: &Log,
        work: &Work,
    ) -> Result<String> {
        match (fault, &self.ceph) {
            (Fault::Program, _) => {
                let interface = self.arguments.interface;
                let source = interface.second_source();
                let version = install(cluster, &interface.program(), &source).await?;
                self.check_revision(cluster, log).await?;
                Ok(format!("interface replaced by version {version}"))
            }
            (Fault::Sequencer, _) => {
                let node = self.sequencer(log).await?;
                self.supervisor.kill(&node, false).await?;
                self.supervisor.up(&node).await?;
                // The log has recovered when its tail is known, because finding the tail needs
                // every target.
                log.tail().await?;
                Ok(format!("sequencer {node} killed"))
            }
            (Fault::Target, Some(ceph)) => hit(ceph, log, work).await,
            (Fault::Target, None) => {
                let node = self.victim(cluster)?;
                self.supervisor.kill(&node, true).await?;
                // The target stays down until the log avoids it, or until all records are appended
                // without it.
                let avoided = tokio::select! {
                    avoided = stripes_avoid(cluster, log, &node) => avoided,
                    through = passed(work, work.total()) => through,
                };
                self.supervisor.resume(&node).await?;
                avoided.map(|()| format!("target {node} killed"))
            }
        }
    }

    /// The node that hands out the log's positions, by its name here.
    async fn sequencer(&self, log: &Log) -> Result<String> {
        let known = log.stat().await?.sequencer;
        let node = known.and_then(|known| self.supervisor.cluster().known(&known));
        let node = node.ok_or_else(|| {
            Error::not_found("no node of this cluster serves the sequencer of the demo's log")
        })?;
        Ok(node.name.clone())
    }

    /// Calls the method that only version 2 has, on an object of the log.
    async fn check_revision(&self, cluster: &Cluster, log: &Log) -> Result<()> {
        let (view, object) = (log.view(), first_object(log)?);
        let (class, interface) = (view.class().as_str(), self.arguments.interface);
        let object = cluster.object(&object).await?;
        let reply = object.call(class, ADDED_METHOD, interface.question()).await?;
        if interface.is_answer(&reply.output) {
            return Ok(());
        }
        Err(Error::corrupt(
            "the log's class still runs its first version, although the second one is active",
        ))
    }

    /// Chooses a target to kill, among those that do not keep the map with the log's view. There is
    /// only one copy of each map here. Without this map the log could not avoid the killed target,
    /// and would have to wait for it.
    fn victim(&self, cluster: &Cluster) -> Result<String> {
        let maps = [format!("nacre.system/map/log.{LOG}"), "nacre.system/map/programs".to_owned()];
        let keepers: Vec<_> = maps
            .iter()
            .map(|map| Ok(cluster.locate(&map.parse()?).to_string()))
            .collect::<Result<_>>()?;
        let mut targets = self.supervisor.cluster().with_role(RoleName::Storage);
        let victim = targets.find(|node| !keepers.contains(&node.name));
        Ok(victim
            .ok_or_else(|| {
                Error::not_found(
                    "no target can be killed: each one keeps a map that the demo needs",
                )
            })?
            .name
            .clone())
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Program,
    Sequencer,
    Target,
}

/// The object of the log's first position.
fn first_object(log: &Log) -> Result<ObjectId> {
    let view = log.view();
    let object = view.place(0).and_then(|place| view.object(place));
    object
        .ok_or_else(|| Error::corrupt("the view of the demo's log names no object for position 0"))
}

/// Kills the OSD that serves the log's object, and the leading monitor. Starts both again when the
/// writers have made progress without them.
async fn hit(ceph: &DevCeph, log: &Log, work: &Work) -> Result<String> {
    let osd = ceph.primary(&first_object(log)?).await?;
    let monitor = ceph.leader().await?;
    ceph.kill(&osd).await?;
    ceph.kill(&monitor).await?;
    let total = work.total();
    let before = *work.acknowledged().borrow();
    passed(work, (before + total / 16).min(total)).await?;
    ceph.start(&osd).await?;
    ceph.start(&monitor).await?;
    Ok(format!("{osd} and {monitor} killed"))
}

fn hangs(fault: Fault) -> Error {
    let limit = STEP_DEADLINE.as_secs();
    Error::unavailable(format!("the cluster had not recovered {limit} s after the fault {fault:?}"))
}

/// Puts and activates a version of the storage interface, and waits until every node runs it.
async fn install(cluster: &Cluster, program: &ProgramId, source: &str) -> Result<u64> {
    let programs = cluster.programs();
    let version = programs.put(program, source).await?;
    programs.activate(program, version).await?;
    programs.wait(program, version, STEP_DEADLINE).await?;
    Ok(version)
}

/// How many records the writers may append before the fault at the end of this quarter has
/// happened. The number lies in the middle of the next quarter.
fn gate_before(work: &Work, quarter: usize) -> usize {
    (work.total() * quarter + work.total() * (quarter + 1)) / 8
}

/// Measures the rate, and limits the run to as many records as take about 45 s. If a quarter of all
/// records is appended during the measurement, the input is short, and the run has no limit.
async fn measure(work: &Work, progress: Progress) -> Result<()> {
    let (started, first_fault) = (work.now(), work.total() / 4);
    if let Ok(passed) = tokio::time::timeout(MEASURED, passed(work, first_fault)).await {
        return passed;
    }
    let (acknowledged, elapsed) = (*work.acknowledged().borrow(), work.now() - started);
    work.stop_at(records_to_append(acknowledged, elapsed, work.total()));
    let rate = acknowledged as f64 / elapsed.as_secs_f64();
    progress.note(&format!(
        "{} of them are appended, in about 45 s: {rate:.0} records/s were measured",
        work.total()
    ));
    Ok(())
}

async fn passed(work: &Work, mark: usize) -> Result<()> {
    let mut acknowledged = work.acknowledged();
    let passed = acknowledged.wait_for(|&count| count >= mark).await;
    passed.map(drop).map_err(|_| Error::unavailable("the writers ended before the demo did"))
}

/// Waits until the log stores no new records on `node`. A writer notices that the node is down, and
/// changes the log's view.
async fn stripes_avoid(cluster: &Cluster, log: &Log, node: &str) -> Result<()> {
    let mut changes = cluster.maps().watch(log.name().map(), 0);
    loop {
        changes.next().await?;
        let view = cluster.log_env().views.current(log.name()).await?;
        let view = view.ok_or_else(|| Error::not_found("the demo's log has been removed"))?;
        let targets = view.current_targets(&**cluster.store());
        if targets.iter().all(|target| target.as_str() != node) {
            return Ok(());
        }
    }
}

/// Reads every position of the log with its data, over a new connection.
async fn read_all(folder: &Path, log: &str) -> Result<Vec<(u64, Option<Bytes>)>> {
    let log = Cluster::connect(folder).await?.log(log).await?;
    let tail = log.tail().await?;
    let mut read = Vec::new();
    let mut at = 0;
    while at < tail {
        for slot in log.read_range(at, READ_PAGE).await? {
            let data = match slot.entry {
                Some(Entry::Data(data)) => Some(data),
                _ => None,
            };
            at = slot.position + 1;
            read.push((slot.position, data));
        }
    }
    Ok(read)
}
