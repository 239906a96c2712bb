//! `nacre node`: one node's process, started by a supervisor.

use std::path::Path;
use std::sync::Arc;

use nacre::ClusterFile;
use nacre_clock::SystemClock;
use nacre_node::{Level, Node, NodeLock, NodeLog, NodeOptions, ready_line};
use nacre_object::Result;
use tokio::io::AsyncReadExt;

use crate::out::Out;
use crate::signals::Interrupts;

/// What `nacre node` is told
#[derive(Debug, clap::Args)]
pub struct NodeArguments {
    /// Which of the cluster's nodes to be
    #[arg(long)]
    name: String,
    /// Finish when standard input ends: the supervisor is gone then
    #[arg(long)]
    supervised: bool,
    /// The loopback port for its metrics; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    metrics_port: u16,
}

/// Serves until SIGINT, SIGTERM or, supervised, the end of standard input.
pub async fn run(arguments: NodeArguments, folder: &Path) -> Result<()> {
    let log = NodeLog::new(&arguments.name, Arc::new(SystemClock::default()));
    report_panics(log.clone());
    if let Err(error) = serve(arguments, folder, &log).await {
        log.say(Level::Error, &error.to_string(), &[("kind", error.kind().as_str().into())]);
        // It has been said, in the form everything here is said in.
        std::process::exit(1);
    }
    Ok(())
}

async fn serve(arguments: NodeArguments, folder: &Path, log: &NodeLog) -> Result<()> {
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
        lock = NodeLock::take(&cluster, &arguments.name, log) => lock?,
        () = &mut told_to_stop => return Ok(()),
    };
    let options = NodeOptions { metrics_port: arguments.metrics_port };
    let node = Node::start(&cluster, lock, options).await?;
    let metrics = node.metrics_address().to_string();
    log.say(Level::Info, "serving", &[("metrics", metrics.into())]);
    Out::new(false).line(&ready_line(node.metrics_address()))?;
    told_to_stop.await;
    log.say(Level::Info, "stopping", &[]);
    tokio::select! {
        stopped = node.stop() => stopped,
        // What was acknowledged is on the disk.
        () = interrupts.second() => Ok(()),
    }
}

/// Has panics told in the log as everything else. What panicked fails by itself.
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
