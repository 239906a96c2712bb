//! `nacre node`: runs one node as a process; the supervisor of `nacre up` starts it. Its
//! subcommands manage a single node.

use std::path::Path;
use std::sync::Arc;

use nacre::{Cluster, ClusterFile};
use nacre_clock::SystemClock;
use nacre_node::{Level, Node, NodeLock, NodeLog, NodeOptions, ready_line};
use nacre_object::Result;
use tokio::io::AsyncReadExt;

use super::node_forget::{self, ForgetArguments};
use super::node_set::{self, SetArguments};
use crate::out::Out;
use crate::signals::Interrupts;

/// The arguments of `nacre node`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NodeArguments {
    #[command(subcommand)]
    command: Option<NodeCommand>,
    #[command(flatten)]
    serve: ServeArguments,
}

/// What an operator does about one node
#[derive(Debug, clap::Subcommand)]
enum NodeCommand {
    /// Accept that the data of a storage target is lost: the target starts empty
    Forget(ForgetArguments),
    /// Set the labels and the capacity of a node, which balancer policies use
    Set(SetArguments),
}

impl NodeArguments {
    /// Whether it asks a cluster that runs.
    pub fn asks_a_cluster(&self) -> bool {
        matches!(self.command, Some(NodeCommand::Set(_)))
    }
}

/// How to run a node
#[derive(Debug, clap::Args)]
struct ServeArguments {
    /// The name of the node in the cluster's file
    #[arg(long, required = true)]
    name: Option<String>,
    /// End when standard input ends; `nacre up` sets this, so that its nodes end with it
    #[arg(long)]
    supervised: bool,
    /// The loopback port for the node's metrics; 0 takes any free port
    #[arg(long, default_value_t = 0)]
    metrics_port: u16,
}

/// Runs the subcommand, if there is one. Without a subcommand, it serves as a node until SIGINT or
/// SIGTERM. A supervised node also ends when standard input ends.
pub async fn run(
    arguments: NodeArguments,
    folder: &Path,
    connect: impl AsyncFnOnce() -> Result<Cluster>,
    out: Out,
) -> Result<()> {
    let NodeArguments { command, serve: serve_arguments } = arguments;
    match command {
        Some(NodeCommand::Forget(forget)) => return node_forget::run(&forget, folder, out).await,
        Some(NodeCommand::Set(set)) => return node_set::run(set, &connect().await?, out).await,
        None => {}
    }
    let name = serve_arguments.name.clone().unwrap_or_default();
    let log = NodeLog::new(&name, Arc::new(SystemClock::default()));
    report_panics(log.clone());
    if let Err(error) = serve(&name, &serve_arguments, folder, &log).await {
        log.say(Level::Error, &error.to_string(), &[("kind", error.kind().as_str().into())]);
        // It has been said, in the form everything here is said in.
        std::process::exit(1);
    }
    Ok(())
}

async fn serve(name: &str, arguments: &ServeArguments, folder: &Path, log: &NodeLog) -> Result<()> {
    let interrupts = Interrupts::hear()?;
    let interrupted = interrupts.first();
    let told_to_stop = async {
        tokio::select! {
            () = interrupted => {}
            () = orphaned(), if arguments.supervised => {}
        }
    };
    tokio::pin!(told_to_stop);
    let cluster = ClusterFile::read(folder)?;
    let lock = tokio::select! {
        lock = NodeLock::take(&cluster, name, log) => lock?,
        () = &mut told_to_stop => return Ok(()),
    };
    let options = NodeOptions { metrics_port: arguments.metrics_port };
    let node = Node::start(&cluster, lock, options).await?;
    let metrics = node.metrics_address().to_string();
    match node.refusal() {
        Some(refusal) => log.say(Level::Error, &refusal.to_string(), &[]),
        None => log.say(Level::Info, "serving", &[("metrics", metrics.into())]),
    }
    Out::new(false).line(&ready_line(node.metrics_address()))?;
    tokio::select! {
        () = &mut told_to_stop => log.say(Level::Info, "stopping", &[]),
        () = node.until_mended() => {
            log.say(Level::Info, "the folder is in order again: stopping, to be started anew", &[]);
        }
    }
    tokio::select! {
        stopped = node.stop() => stopped,
        // What was acknowledged is on the disk.
        () = interrupts.second() => Ok(()),
    }
}

/// Writes panics into the node's log. Only the task that panics fails.
fn report_panics(log: NodeLog) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no reason given");
        log.say(Level::Error, &format!("panicked: {text}"), &[("place", place.into())]);
    }));
}

async fn orphaned() {
    let mut ignored = [0; 64];
    let mut input = tokio::io::stdin();
    while matches!(input.read(&mut ignored).await, Ok(n) if n > 0) {}
}
