//! `nacre demo`: shows nacre's main use from end to end, with nothing simulated.
//!
//! A cluster of real processes runs in a scratch folder. The log's storage interface is installed
//! as a program. Writers append the records of a real file. Meanwhile the demo replaces the
//! program, kills the sequencer's process, and kills a storage target's process. On Ceph it kills
//! the OSD that serves the log's object, and the leading monitor, instead of a target. At the end
//! it reads all records back, and compares them with the acknowledged ones.

mod balance;
mod dev_ceph;
mod faults;
mod interface;
mod log_demo;
mod plan;
mod progress;
mod records;
mod report;
mod routes;
mod slo;
mod timeline;
mod verify;
mod writers;

use std::path::PathBuf;
use std::time::Duration;

use nacre::{ClusterFile, Layout};
use nacre_node::Supervisor;
use nacre_object::{Error, Result};

use self::dev_ceph::DevCeph;
use self::interface::Interface;
use self::log_demo::{LogDemo, records_of};
use self::records::Records;
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
    /// writes to other targets, and one of them is killed. On Ceph the targets are OSDs, and the
    /// gateway is killed too
    #[arg(long, conflicts_with_all = ["input", "writers", "records", "interface", "balance", "slo"])]
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
            (Self::Routes, Engine::Embedded) => (routes::TARGETS, 1),
            (Self::Routes, Engine::Ceph(_)) => (routes::GATEWAYS, 0),
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
        Engine::Ceph(entry) => {
            let nodes = if storage == 1 { "node" } else { "nodes" };
            format!("{storage} {nodes} in {folder}; the data is in {entry}")
        }
    });
    let outcome = tokio::select! {
        played = perform(&supervisor, &arguments, records, out) => played,
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

/// Runs the demonstration that the arguments choose: with these records the one of a log.
async fn perform(
    supervisor: &Supervisor,
    arguments: &DemoArguments,
    records: Option<Records>,
    out: Out,
) -> Result<()> {
    match records {
        Some(records) => {
            LogDemo { supervisor, arguments, ceph: arguments.ceph() }.show(records, out).await
        }
        None if arguments.routes => {
            routes::play(supervisor, arguments.ceph(), arguments.quick, out).await
        }
        None if arguments.slo => slo::play(supervisor, out).await,
        None => balance::play(supervisor, out).await,
    }
}
