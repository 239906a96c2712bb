//! `nacre balancer …`: where load goes.

mod check;
mod history;
mod policy_file;
mod profile;
mod replay;
mod settings;
mod simulate;

use std::path::PathBuf;

use clap::Subcommand;
use nacre::{Cluster, RoleName};
use nacre_balance::DEFAULT_TICK;
use nacre_object::{NodeName, ProgramName, Result};

use crate::commands::balancer_cephfs::{self, CephfsCommand};
use crate::listing::Limit;
use crate::out::Out;

/// Balance the load of metadata nodes: decide which node issues the positions of which log
#[derive(Debug, Subcommand)]
pub enum BalancerCommand {
    /// Balance the cluster with a policy, which decides which sequencers move to which node
    Set {
        /// The NAME of an active program balancer/NAME
        policy: ProgramName,
        /// Seconds from one decision to the next
        #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TICK.as_secs_f64())]
        tick: f64,
    },
    /// Stop balancing: every sequencer stays on its node
    Off,
    /// Show the active policy, and the last decision of each node
    Status,
    /// Show recent decisions of the balancer with their reasons
    History {
        /// Show only the decisions of this node
        node: Option<NodeName>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Check a policy without storing it, and show what it decides for some made-up loads
    Check {
        /// The policy's source; `-` is standard input
        file: PathBuf,
    },
    /// Simulate a policy on a made-up cluster
    Simulate(simulate::SimulateArguments),
    /// Measure the cost of sequencer operations on the running cluster, for `nacre balancer
    /// simulate --model`
    Profile(profile::ProfileArguments),
    /// Show what a policy would have decided for recorded loads
    Replay(replay::ReplayArguments),
    #[command(subcommand)]
    Cephfs(CephfsCommand),
}

impl BalancerCommand {
    /// Whether the command connects to a running nacre cluster.
    pub fn asks_a_cluster(&self) -> bool {
        match self {
            Self::Check { .. } | Self::Simulate(_) | Self::Cephfs(_) => false,
            Self::Replay(replay) => replay.asks_a_cluster(),
            Self::Profile(_)
            | Self::Set { .. }
            | Self::Off
            | Self::Status
            | Self::History { .. } => true,
        }
    }
}

/// Runs one of them.
pub async fn run(
    command: BalancerCommand,
    connect: impl AsyncFnOnce() -> Result<Cluster>,
    out: Out,
) -> Result<()> {
    match command {
        BalancerCommand::Set { policy, tick } => {
            settings::set(&connect().await?, policy, tick).await
        }
        BalancerCommand::Off => settings::off(&connect().await?).await,
        BalancerCommand::Status => settings::status(&connect().await?, out).await,
        BalancerCommand::History { node, limit } => {
            history::history(&connect().await?, node, limit, out).await
        }
        BalancerCommand::Check { file } => check::check(&file, out),
        BalancerCommand::Simulate(arguments) => simulate::simulate(&arguments, out),
        BalancerCommand::Profile(arguments) => {
            profile::profile(&arguments, &connect().await?, out).await
        }
        BalancerCommand::Cephfs(command) => balancer_cephfs::run(command, out).await,
        BalancerCommand::Replay(arguments) => replay::replay(&arguments, connect, out).await,
    }
}

/// The nodes that can serve units, by name.
async fn ranks(cluster: &Cluster) -> Result<Vec<NodeName>> {
    let role = RoleName::Metadata.as_str();
    let nodes = cluster.nodes().list().await?.into_iter();
    let ranks = nodes.filter(|node| node.roles.iter().any(|own| own == role));
    Ok(ranks.map(|node| node.name).collect())
}
