//! `nacre up`: a cluster in the foreground.

use std::path::Path;

use nacre::{Cluster, ClusterFile, Keys, Layout};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{NodeState, Supervisor};
use nacre_object::{Error, ErrorKind, Result};
use serde_json::json;

use crate::engine::{Engine, EngineArgument};
use crate::out::{Out, note};
use crate::signals::Interrupts;

/// Storage targets of a new cluster, unless told otherwise.
const DEFAULT_TARGETS: u16 = 3;
/// The same of one whose data Ceph keeps.
const DEFAULT_GATEWAYS: u16 = 1;
/// More processes than this on one machine is a mistake.
const MAX_TARGETS: i64 = 64;
/// The highest first port: those of all processes must be ports.
const MAX_METRICS_PORT: i64 = 65_000;

/// Said where the keys are of another authority than the one the entities began with, or where the
/// administrator was revoked.
const ADMIN_IS_NOBODY: &str = "the identity in tls/admin.json is no entity of this cluster: \
    let somebody in with `nacre entity add` in this folder";

const _: () = assert!(MAX_METRICS_PORT + MAX_TARGETS + 2 <= u16::MAX as i64);

/// How large a new cluster is
#[derive(Debug, clap::Args)]
pub struct TargetArguments {
    /// Storage targets of a new cluster, each a process (3; on Ceph, the nodes that serve it: 1); an
    /// existing one keeps its own
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=MAX_TARGETS))]
    targets: Option<u16>,
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
}

/// What `nacre up` can be told
#[derive(Debug, clap::Args)]
pub struct UpArguments {
    #[command(flatten)]
    targets: TargetArguments,
    #[command(flatten)]
    engine: EngineArgument,
    /// The first of the loopback ports for metrics, one a process; any free ones if left out
    #[arg(long, default_value_t = 0,
          value_parser = clap::value_parser!(u16).range(0..=MAX_METRICS_PORT))]
    metrics_port: u16,
}

/// What a person is told at the first signal.
const STOPPING: &str = "stopping; a second signal ends every node at once";

/// Runs a cluster until SIGINT or SIGTERM. A second signal kills the nodes: what they acknowledged stays.
pub async fn run(arguments: UpArguments, folder: &Path, out: Out) -> Result<()> {
    let engine = &arguments.engine.engine;
    let cluster = match ClusterFile::read(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            engine.check_reachable().await?;
            let layout = Layout {
                engine: engine.to_entry(),
                storage: arguments.targets.count(engine),
                addresses: vec![],
                sockets: true,
            };
            ClusterFile::lay_out(folder, &layout)?
        }
        found => engine.check(found?)?,
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

/// Returns only if something fails.
async fn prepare_and_wait(supervisor: &Supervisor, out: Out) -> Result<()> {
    let file = supervisor.cluster();
    let cluster = Cluster::reach(file)?;
    cluster.create_default_pools().await?;
    let keys = Keys::of(file);
    // Who has it moved away to keep it secret needs it here no more.
    if let Some(admin) = keys.admin()? {
        let now_micros = SystemClock::default().now_micros();
        let entities = cluster.entities();
        if !entities.found(admin.entity(), admin.fingerprint(), now_micros).await? {
            note(ADMIN_IS_NOBODY);
        }
    }
    announce(supervisor, out)?;
    std::future::pending().await
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
