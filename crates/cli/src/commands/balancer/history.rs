//! `nacre balancer history`: what was decided lately, and why.

use nacre::Cluster;
use nacre_balance::{Decision, History, TickRecord};
use nacre_object::{NodeName, Result};
use serde_json::json;

use super::ranks;
use crate::listing::{Limit, Listing};
use crate::out::{Out, utc};

/// Shows what was decided lately.
pub(super) async fn history(
    cluster: &Cluster,
    node: Option<NodeName>,
    limit: Limit,
    out: Out,
) -> Result<()> {
    let nodes = match node {
        Some(node) => vec![node],
        None => ranks(cluster).await?,
    };
    Listing::table(out, Limit::default(), &HEADER).all(
        limit.latest(recorded(cluster, nodes).await?),
        |(node, record)| json!({ "node": node.as_str(), "record": record }),
        |(node, record)| vec![row(node, record)],
    )
}

/// All that some nodes have kept, the earliest first.
pub(super) async fn recorded(
    cluster: &Cluster,
    nodes: Vec<NodeName>,
) -> Result<Vec<(NodeName, TickRecord)>> {
    let mut records = vec![];
    for node in nodes {
        let kept = History::of(cluster.store().clone(), &node)?.last(usize::MAX).await?;
        records.extend(kept.into_iter().map(|record| (node.clone(), record)));
    }
    records.sort_by_key(|(_, record)| record.at_micros);
    Ok(records)
}

/// The columns of ticks.
pub(super) const HEADER: [&str; 5] = ["node", "tick", "at", "load", "decision"];

/// A tick of a node as a line of a table.
pub(super) fn row(node: &NodeName, record: &TickRecord) -> Vec<String> {
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
