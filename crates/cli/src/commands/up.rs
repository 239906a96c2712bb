//! `nacre up`: a cluster in the foreground.

use std::path::Path;
use std::time::Duration;

use nacre::{Cluster, ClusterFile, Keys, Layout, RoleName, TargetFolder};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{NodeState, Supervisor};
use nacre_object::{Error, ErrorKind, Result};
use serde_json::json;

use crate::engine::{Engine, EngineArgument};
use crate::out::{Out, note};
use crate::signals::Interrupts;

/// Storage targets of a new cluster, unless told otherwise.
const DEFAULT_TARGETS: u16 = 3;
/// Nodes of a new cluster whose data Ceph keeps, unless told otherwise.
const DEFAULT_GATEWAYS: u16 = 1;
/// More processes than this on one machine is a mistake.
const MAX_TARGETS: i64 = 64;
/// The pause between two attempts to prepare a cluster while some of its targets do not serve.
const PREPARE_AGAIN: Duration = Duration::from_secs(1);
/// The highest value for the first port. The other processes use the ports after it.
const MAX_METRICS_PORT: i64 = 65_000;

/// A note for two cases: the keys were made by another certificate authority than the one that the
/// cluster began with, or the administrator was revoked.
const ADMIN_IS_NOBODY: &str = "the identity in tls/admin.json is no entity of this cluster: \
    add an administrator with `nacre entity add` in this folder";

const _: () = assert!(MAX_METRICS_PORT + 2 * MAX_TARGETS < u16::MAX as i64);

/// How large a new cluster is
#[derive(Debug, clap::Args)]
pub struct TargetArguments {
    /// Number of storage targets of a new cluster, each a process (default: 3). On Ceph, the number
    /// of gateways, nodes that pass requests to Ceph (default: 1). An existing cluster keeps its
    /// number
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=MAX_TARGETS))]
    targets: Option<u16>,
    /// Number of metadata nodes of a new cluster, each a process that serves the sequencers of logs
    /// and other resources (default: 1). On Ceph every node serves them
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=MAX_TARGETS))]
    metadata: Option<u16>,
}

impl TargetArguments {
    /// How many there are to be.
    pub fn count(&self, engine: &Engine) -> usize {
        let default = match engine {
            Engine::Embedded => DEFAULT_TARGETS,
            Engine::Ceph(_) => DEFAULT_GATEWAYS,
        };
        self.targets.unwrap_or(default).into()
    }

    /// How many metadata nodes there are to be.
    pub fn metadata_count(&self) -> usize {
        self.metadata.unwrap_or(1).into()
    }

    /// Returns the existing cluster, if the command line gives no other number of targets.
    ///
    /// # Errors
    /// `Invalid` if the numbers differ.
    pub fn check(&self, cluster: ClusterFile) -> Result<ClusterFile> {
        let (folder, count) =
            (cluster.folder().display(), cluster.with_role(RoleName::Storage).count());
        let what = cluster.engine().map_or("storage targets", |_| "nodes");
        match self.targets {
            Some(asked) if usize::from(asked) != count => {
                let text = format!("the cluster at {folder} has {count} {what}, not {asked}");
                Err(Error::invalid(text).hint(
                    "leave --targets out to run it as it is: the number is fixed when a cluster is made. \
                     For another number make a new cluster in another folder, with --cluster DIR, and \
                     copy the objects",
                ))
            }
            _ => self.check_metadata(cluster),
        }
    }
}

impl TargetArguments {
    /// Returns the existing cluster, if the command line gives no other number of metadata nodes.
    fn check_metadata(&self, cluster: ClusterFile) -> Result<ClusterFile> {
        let count = cluster.with_role(RoleName::Metadata).count();
        match self.metadata {
            Some(asked) if usize::from(asked) != count => {
                let folder = cluster.folder().display();
                let text =
                    format!("the cluster at {folder} has {count} metadata nodes, not {asked}");
                Err(Error::invalid(text).hint(
                    "leave --metadata out to run it as it is: the number is fixed when a cluster is made",
                ))
            }
            _ => Ok(cluster),
        }
    }
}

/// The arguments of `nacre up`
#[derive(Debug, clap::Args)]
pub struct UpArguments {
    #[command(flatten)]
    targets: TargetArguments,
    #[command(flatten)]
    engine: EngineArgument,
    /// The first loopback port for metrics; each process takes the next one (default: any free
    /// ports)
    #[arg(long, default_value_t = 0,
          value_parser = clap::value_parser!(u16).range(0..=MAX_METRICS_PORT))]
    metrics_port: u16,
}

/// The line that `up` prints at the first signal.
const STOPPING: &str = "stopping; a second signal ends every node at once";

/// Runs a cluster until SIGINT or SIGTERM. A second signal kills the nodes; acknowledged changes
/// still survive.
pub async fn run(arguments: UpArguments, folder: &Path, out: Out) -> Result<()> {
    let engine = &arguments.engine.engine;
    let cluster = match ClusterFile::read(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            engine.check_reachable().await?;
            let layout = Layout {
                engine: engine.to_entry(),
                storage: arguments.targets.count(engine),
                metadata: arguments.targets.metadata_count(),
                addresses: vec![],
                sockets: true,
            };
            ClusterFile::lay_out(folder, &layout)?
        }
        found => arguments.targets.check(engine.check(found?)?)?,
    };
    let interrupts = Interrupts::hear()?;
    let program = this_program()?;
    let first = interrupts.first();
    let stopping = async {
        first.await;
        note(STOPPING);
    };
    let (port, second) = (arguments.metrics_port, interrupts.second());
    let started = Supervisor::start_unless(cluster, &program, port, stopping, second).await?;
    let Some(mut supervisor) = started else { return Ok(()) };
    let outcome = tokio::select! {
        outcome = prepare_and_wait(&supervisor, out) => outcome,
        () = interrupts.first() => Ok(()),
    };
    note(STOPPING);
    supervisor.stop_unless_hurried(interrupts.second()).await;
    outcome
}

/// Prepares the cluster, then waits for ever; returns only on an error. If the preparation needs a
/// target that does not serve, the cluster runs without it. The preparation is repeated until that
/// target serves.
async fn prepare_and_wait(supervisor: &Supervisor, out: Out) -> Result<()> {
    let file = supervisor.cluster();
    let cluster = Cluster::reach(file)?;
    note_refusals(file);
    let may_wait =
        |error: &Error| file.engine().is_none() && error.kind() == ErrorKind::Unavailable;
    let mut prepared = prepare(&cluster, file).await;
    match &prepared {
        Err(error) if may_wait(error) => note(&format!("nacre: {error}")),
        Err(_) => return prepared,
        Ok(()) => {}
    }
    announce(supervisor, out)?;
    while prepared.as_ref().is_err_and(may_wait) {
        tokio::time::sleep(PREPARE_AGAIN).await;
        prepared = prepare(&cluster, file).await;
    }
    prepared?;
    if file.engine().is_none() {
        note_lost_sources(&cluster).await;
    }
    std::future::pending().await
}

/// Waits until all targets serve, then names the programs whose source was lost with a forgotten
/// target.
async fn note_lost_sources(cluster: &Cluster) {
    let lost = loop {
        match cluster.lost_sources().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                tokio::time::sleep(PREPARE_AGAIN).await;
            }
            Err(error) => return note(&format!("nacre: cannot check the programs: {error}")),
            Ok(lost) => break lost,
        }
    };
    for (program, version) in lost {
        note(&format!(
            "nacre: the source of {program} version {version} is lost, so no node can run it; put \
             the same source again with `nacre program put {program} FILE`"
        ));
    }
}

/// Says which storage targets do not serve, and what to do.
fn note_refusals(file: &ClusterFile) {
    for entry in file.with_role(RoleName::Storage) {
        if let Some(refusal) = TargetFolder::of(file, entry).refusal() {
            note(&format!("nacre: {refusal}"));
        }
    }
}

/// Makes the pools and the first administrator of a new cluster.
async fn prepare(cluster: &Cluster, file: &ClusterFile) -> Result<()> {
    cluster.create_default_pools().await?;
    let keys = Keys::of(file);
    // The administrator's identity may be missing here, because somebody has moved it to a secret
    // place.
    if let Some(admin) = keys.admin()? {
        let now_micros = SystemClock::default().now_micros();
        let entities = cluster.entities();
        if !entities.found(admin.entity(), admin.fingerprint(), now_micros).await? {
            note(ADMIN_IS_NOBODY);
        }
    }
    Ok(())
}

/// The program that is running, to start nodes with.
pub fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::unavailable(format!("cannot find this program's file: {error}")))
}

fn announce(supervisor: &Supervisor, out: Out) -> Result<()> {
    let folder = supervisor.cluster().folder().display();
    let nodes: Vec<_> = supervisor
        .states()
        .into_iter()
        .map(|(name, state)| match state {
            NodeState::Up { pid } => (name, Some(pid)),
            _ => (name, None),
        })
        .collect();
    let metrics = supervisor.scrape_targets().path().display();
    let value = json!({ "cluster": folder.to_string(), "metrics": metrics.to_string(), "nodes":
        nodes.iter().map(|(name, pid)| json!({ "name": name, "pid": pid })).collect::<Vec<_>>() });
    out.show(&value, || {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(name, pid)| match pid {
                Some(pid) => format!("{name} (pid {pid})"),
                None => format!("{name} (restarting)"),
            })
            .collect();
        let nodes = nodes.join(", ");
        format!("nacre is up at {folder}: {nodes}\nmetrics: {metrics}\nstop it with Ctrl-C")
    })
}
