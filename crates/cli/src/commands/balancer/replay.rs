//! `nacre balancer replay`: shows what a policy would have decided at recorded ticks.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use nacre::Cluster;
use nacre_balance::{NodeRecord, Outcome, Replay, ReplayedTick, replay as replayed};
use nacre_object::{Error, Result};

use super::policy_file::PolicyFile;
use super::{history, ranks};
use crate::out::{Out, table, utc};

/// What to replay
#[derive(Debug, clap::Args)]
pub struct ReplayArguments {
    /// The policy's source; `-` is standard input
    policy_file: PathBuf,
    /// A file that `nacre balancer history --json` or `nacre balancer cephfs record` wrote
    /// (default: what the cluster has recorded)
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

impl ReplayArguments {
    /// Whether it asks a cluster.
    pub fn asks_a_cluster(&self) -> bool {
        self.history.is_none()
    }
}

/// Replays, and shows both decisions of each tick.
pub(super) async fn replay(
    arguments: &ReplayArguments,
    connect: impl AsyncFnOnce() -> Result<Cluster>,
    out: Out,
) -> Result<()> {
    let policy = PolicyFile::read(&arguments.policy_file)?.compile()?;
    let records = match &arguments.history {
        Some(path) => read(path)?,
        None => kept(&connect().await?).await?,
    };
    let replay = replayed(&records, &policy);
    out.show(&replay, || text(&replay))
}

async fn kept(cluster: &Cluster) -> Result<Vec<NodeRecord>> {
    let nodes = ranks(cluster).await?;
    let records = history::recorded(cluster, nodes).await?.into_iter();
    Ok(records.map(|(node, record)| NodeRecord { node: node.to_string(), record }).collect())
}

/// Reads recorded ticks.
pub(super) fn read(path: &Path) -> Result<Vec<NodeRecord>> {
    let name = path.display();
    let unreadable = |cause| Error::not_found(format!("cannot read {name}: {cause}"));
    let lines = BufReader::new(File::open(path).map_err(unreadable)?).lines();
    let mut records = vec![];
    for (number, line) in lines.enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        records.push(serde_json::from_str(&line).map_err(|cause| {
            Error::invalid(format!("line {} of {name} is no record: {cause}", number + 1))
                .hint("make the file by `nacre balancer history --json` or `nacre balancer cephfs record`")
        })?);
    }
    Ok(records)
}

fn text(replay: &Replay) -> String {
    let Replay { ticks, moves_then, moves_now, failures_now, skipped, .. } = replay;
    let rows: Vec<_> = ticks.iter().map(row).collect();
    let header = ["node", "tick", "at", "policy then", "decided then", "decided now"];
    let policy = crate::out::printable(&replay.policy);
    let mut lines = vec![
        table(&header, &rows),
        format!("{} decisions; {moves_then} moves then, {moves_now} moves now", ticks.len()),
    ];
    if *failures_now > 0 {
        lines.push(format!("{policy} fails at {failures_now} of them"));
    }
    if *skipped > 0 {
        lines.push(format!("the records of {skipped} do not say enough to decide"));
    }
    let is_compared = |tick: &&ReplayedTick| matches!(tick.now, Outcome::Moves(_));
    let as_recorded = ticks.iter().filter(is_compared).filter(|tick| !tick.is_remeasured).count();
    if as_recorded > 0 {
        lines.push(format!(
            "at {as_recorded} of them the loads are those of the recorded policy: not all nodes' records are there"
        ));
    }
    lines.join("\n")
}

fn row(tick: &ReplayedTick) -> Vec<String> {
    vec![
        tick.node.clone(),
        tick.tick.to_string(),
        utc(tick.at_micros),
        tick.policy.clone(),
        outcome(&tick.then, &tick.ranks),
        outcome(&tick.now, &tick.ranks),
    ]
}

fn outcome(outcome: &Outcome, ranks: &[String]) -> String {
    match outcome {
        Outcome::Moves(moves) if moves.is_empty() => "all stay".to_owned(),
        Outcome::Moves(moves) => {
            let moved = moves.iter().map(|moved| {
                format!("{} to {}", moved.unit, ranks.get(moved.to).map_or("?", String::as_str))
            });
            moved.collect::<Vec<_>>().join(", ")
        }
        Outcome::Failed(why) => format!("nothing moves: {why}"),
        Outcome::Unknown(why) => format!("unknown: {why}"),
    }
}
