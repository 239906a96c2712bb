//! `nacre balancer …`: where load goes.

use std::time::Duration;

use clap::Subcommand;
use nacre::{Cluster, ProgramId, ProgramKind, RoleName};
use nacre_balance::{
    BalancerSettings, DEFAULT_TICK, Decision, History, MAX_TICK, MIN_TICK, TickRecord,
};
use nacre_object::{Error, NodeName, ProgramName, Result};
use serde_json::json;

use crate::listing::{Limit, Listing};
use crate::out::{Out, table, utc};

/// Balance the load of metadata nodes: which node hands out the positions of which log
#[derive(Debug, Subcommand)]
pub enum BalancerCommand {
    /// Have a policy balance the cluster: a program balancer/POLICY with an active version
    Set {
        /// The policy
        policy: ProgramName,
        /// Seconds from one decision to the next
        #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TICK.as_secs_f64())]
        tick: f64,
    },
    /// Balance nothing: every unit stays where it is
    Off,
    /// Show the policy, and what each node decided last
    Status,
    /// Show what was decided lately, and why
    History {
        /// Only what this node decided
        node: Option<NodeName>,
        #[command(flatten)]
        limit: Limit,
    },
}

/// Runs one of them.
pub async fn run(command: BalancerCommand, cluster: &Cluster, out: Out) -> Result<()> {
    match command {
        BalancerCommand::Set { policy, tick } => set(cluster, policy, tick).await,
        BalancerCommand::Off => {
            let tick = BalancerSettings::read(cluster.maps()).await?.tick;
            BalancerSettings { policy: None, tick }.store(cluster.maps()).await
        }
        BalancerCommand::Status => status(cluster, out).await,
        BalancerCommand::History { node, limit } => history(cluster, node, limit, out).await,
    }
}

async fn set(cluster: &Cluster, policy: ProgramName, tick: f64) -> Result<()> {
    let tick = Duration::try_from_secs_f64(tick)
        .map_err(|_| Error::invalid(format!("a tick of {tick} s")))
        .and_then(|tick| match (MIN_TICK..=MAX_TICK).contains(&tick) {
            true => Ok(tick),
            false => Err(Error::invalid(format!("a tick of {tick:?}"))),
        })
        .map_err(|error| error.hint(format!("say one between {MIN_TICK:?} and {MAX_TICK:?}")))?;
    let program = ProgramId::new(ProgramKind::Balancer, policy.clone());
    if cluster.programs().active(&program).await?.is_none() {
        let hint = format!("put and activate one: nacre program put {program} FILE --activate");
        return Err(Error::not_found(format!("{program} has no active version")).hint(hint));
    }
    BalancerSettings { policy: Some(policy), tick }.store(cluster.maps()).await
}

/// The nodes that can serve units, by name.
async fn ranks(cluster: &Cluster) -> Result<Vec<NodeName>> {
    let role = RoleName::Metadata.as_str();
    let nodes = cluster.nodes().list().await?.into_iter();
    let ranks = nodes.filter(|node| node.roles.iter().any(|own| own == role));
    Ok(ranks.map(|node| node.name).collect())
}

async fn status(cluster: &Cluster, out: Out) -> Result<()> {
    let settings = BalancerSettings::read(cluster.maps()).await?;
    let mut last = vec![];
    for node in ranks(cluster).await? {
        let record = History::of(cluster.store().clone(), &node)?.last(1).await?.pop();
        last.push((node, record));
    }
    let policy = settings.policy.as_ref().map(ProgramName::as_str);
    let value = json!({
        "policy": policy,
        "tick_seconds": settings.tick.as_secs_f64(),
        "nodes": last.iter().map(|(node, record)| json!({ "node": node.as_str(), "last": record }))
            .collect::<Vec<_>>(),
    });
    out.show(&value, || {
        let says = match policy {
            Some(policy) => format!("policy {policy}, a tick every {:?}", settings.tick),
            None => "off: every unit stays where it is".to_owned(),
        };
        let rows = last.iter().map(|(node, record)| match record {
            Some(record) => row(node, record),
            None => {
                vec![node.to_string(), "-".into(), "-".into(), "-".into(), "never decided".into()]
            }
        });
        format!("{says}\n{}", table(&HEADER, &rows.collect::<Vec<_>>()))
    })
}

async fn history(cluster: &Cluster, node: Option<NodeName>, limit: Limit, out: Out) -> Result<()> {
    let nodes = match node {
        Some(node) => vec![node],
        None => ranks(cluster).await?,
    };
    let mut records = vec![];
    for node in nodes {
        let kept = History::of(cluster.store().clone(), &node)?.last(usize::MAX).await?;
        records.extend(kept.into_iter().map(|record| (node.clone(), record)));
    }
    records.sort_by_key(|(_, record)| record.at_micros);
    Listing::table(out, limit, &HEADER).all(
        records,
        |(node, record)| json!({ "node": node.as_str(), "record": record }),
        |(node, record)| vec![row(node, record)],
    )
}

const HEADER: [&str; 5] = ["node", "tick", "at", "load", "decision"];

fn row(node: &NodeName, record: &TickRecord) -> Vec<String> {
    let load = record.inputs.ranks.get(record.inputs.whoami).map(|rank| rank.auth);
    vec![
        node.to_string(),
        record.tick.to_string(),
        utc(record.at_micros),
        load.map_or_else(|| "-".to_owned(), |load| format!("{load:.1}")),
        decision_text(record),
    ]
}

fn decision_text(record: &TickRecord) -> String {
    if let Some(failure) = &record.failure {
        return format!("nothing moves: {failure}");
    }
    match &record.decision {
        Some(Decision { moves, .. }) if !moves.is_empty() => {
            let moved = moves.iter().map(|moved| {
                let to = record.inputs.ranks.get(moved.to).map_or("?", |rank| &rank.node);
                let outcome = record.outcomes.iter().find(|outcome| outcome.unit == moved.unit);
                match outcome {
                    Some(outcome) => match &outcome.failure {
                        None => format!("{} to {to} in {:.1} ms", moved.unit, outcome.millis),
                        Some(failure) => format!("{} stays: {failure}", moved.unit),
                    },
                    None => format!("{} to {to}", moved.unit),
                }
            });
            moved.collect::<Vec<_>>().join(", ")
        }
        _ => "all stay".to_owned(),
    }
}
