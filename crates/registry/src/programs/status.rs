//! What nodes report of the programs they made live.
//!
//! The map `program-status` has one entry for each program of each node, by `node/kind/name`: the
//! JSON of a [`StatusReport`]. Only the node itself changes its entries, each time with its entry
//! `node/order`, a [`ReportOrder`], by which a report that was sent before another and arrives after
//! it is known and refused.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, FaultSite, MapName, NodeName, Result};
use serde::{Deserialize, Serialize};

use super::handle::programs_map;
use super::{ProgramId, Programs};
use crate::maps::Maps;
use crate::nodes::Nodes;

/// What a node says of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusReport {
    /// The life of the node it is of: the next one starts with nothing live.
    pub(crate) incarnation: u64,
    /// The version that is live on the node.
    pub(crate) live: Option<u64>,
    /// The version that failed to become live, if one did, with why.
    pub(crate) failed: Option<FailedVersion>,
}

/// A version that a node could not make live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedVersion {
    /// The version; 0 if the program could not be dropped.
    pub version: u64,
    /// Why.
    pub error: String,
    /// Whether the node goes on trying: something it needs was away.
    pub retrying: bool,
}

/// How a program stands on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// Whether the node is up, as far as the node registry knows.
    pub up: bool,
    /// The version that is live there.
    pub live: Option<u64>,
    /// The version it could not make live, if there is one, with why.
    pub failed: Option<FailedVersion>,
}

/// Which of a node's commits of reports was the last: no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ReportOrder {
    /// The life of the node that made it.
    pub(crate) incarnation: u64,
    /// Its number in that life.
    pub(crate) number: u64,
}

impl ReportOrder {
    pub(crate) fn to_value(self) -> Bytes {
        Bytes::from(serde_json::to_vec(&self).expect("two numbers have nothing JSON lacks"))
    }
}

impl StatusReport {
    pub(crate) fn parse(key: &str, value: &[u8]) -> Result<Self> {
        serde_json::from_slice(value)
            .map_err(|cause| Error::corrupt(format!("the status {key}: {cause}")))
    }

    pub(crate) fn to_value(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("a report has nothing JSON lacks"))
    }
}

/// The map of reports.
pub(crate) fn status_map() -> MapName {
    MapName::new("program-status").expect("a well-formed literal")
}

/// How the keys of a node's reports begin.
pub(crate) fn status_key_prefix(node: &NodeName) -> String {
    format!("{node}/")
}

/// The key of what orders a node's reports.
pub(crate) fn report_order_key(node: &NodeName) -> String {
    format!("{node}/order")
}

/// The key of a node's report on a program.
pub(crate) fn status_key(node: &NodeName, program: &ProgramId) -> String {
    format!("{node}/{program}")
}

/// How a program stands on every node that is registered or reported on it.
pub(super) async fn node_statuses(maps: &Maps, program: &ProgramId) -> Result<Vec<NodeStatus>> {
    let nodes = Nodes::new(maps.clone()).list().await?;
    let reports = maps.get(&status_map()).await?;
    let mut statuses = BTreeMap::new();
    let mut incarnations = BTreeMap::new();
    for node in nodes {
        incarnations.insert(node.name.clone(), node.incarnation);
        let status = NodeStatus { node: node.name.clone(), up: node.up, live: None, failed: None };
        statuses.insert(node.name, status);
    }
    let suffix = format!("/{program}");
    for (key, value) in &reports.entries {
        let Some(node) = key.strip_suffix(&suffix) else { continue };
        let node = NodeName::new(node)?;
        let report = StatusReport::parse(key, value)?;
        if incarnations.get(&node).is_some_and(|registered| *registered != report.incarnation) {
            continue;
        }
        let unknown = NodeStatus { node: node.clone(), up: false, live: None, failed: None };
        let status = statuses.entry(node).or_insert(unknown);
        status.live = report.live;
        status.failed = report.failed;
    }
    Ok(statuses.into_values().collect())
}

/// Where a program's way to all nodes stands.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// It is live on every node that is up.
    Live,
    /// These nodes do not have it yet; where one said why, with that.
    Lagging(Vec<String>),
    /// This node cannot make it live.
    Failed(NodeName, String),
}

/// Judges what nodes reported.
fn progress(statuses: &[NodeStatus], version: u64) -> Progress {
    let mut lagging = Vec::new();
    for status in statuses.iter().filter(|status| status.up && status.live != Some(version)) {
        match &status.failed {
            Some(failed) if failed.version != version => lagging.push(status.node.to_string()),
            Some(failed) if failed.retrying => {
                lagging.push(format!("{} ({})", status.node, failed.error));
            }
            Some(failed) => return Progress::Failed(status.node.clone(), failed.error.clone()),
            None => lagging.push(status.node.to_string()),
        }
    }
    if lagging.is_empty() { Progress::Live } else { Progress::Lagging(lagging) }
}

/// See [`Programs::wait`].
pub(super) async fn wait_until_live(
    programs: &Programs,
    program: &ProgramId,
    version: u64,
    timeout: Duration,
) -> Result<()> {
    // A time without end is far away here, where adding it to now would overflow.
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let maps = programs.maps();
    let mut reports = maps.watch(&status_map(), maps.epoch(&status_map()).await?);
    let mut activations = maps.watch(&programs_map(), maps.epoch(&programs_map()).await?);
    let mut nodes = Nodes::new(maps.clone()).watch().await?;
    loop {
        match programs.active(program).await? {
            Some(active) if active == version => {}
            active => return Err(not_active(program, version, active)),
        }
        let lagging = match progress(&programs.status(program).await?, version) {
            Progress::Live => return Ok(()),
            Progress::Failed(node, error) => {
                let text = format!("node {node} cannot make it live: {error}");
                return Err(Error::fault_at(site(program, version), text));
            }
            Progress::Lagging(nodes) => nodes,
        };
        tokio::select! {
            event = reports.next() => { event?; }
            event = activations.next() => { event?; }
            event = nodes.next() => { event?; }
            () = &mut deadline => return Err(late(program, version, &lagging)),
        }
    }
}

fn site(program: &ProgramId, version: u64) -> FaultSite {
    FaultSite { program: program.to_string(), version, ..FaultSite::default() }
}

/// The caller asks for another version than is active.
pub(crate) fn not_active(program: &ProgramId, version: u64, active: Option<u64>) -> Error {
    let text = match active {
        Some(active) => format!("{program} version {version} is not active, {active} is"),
        None => format!("no version of {program} is active"),
    };
    Error::stale(text)
}

fn late(program: &ProgramId, version: u64, lagging: &[String]) -> Error {
    let nodes = lagging.join(", ");
    Error::unavailable(format!("{program} version {version} is not live yet on {nodes}"))
        .hint("they follow when they can reach the store")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(node: &str, up: bool, live: u64, failed: Option<(u64, bool)>) -> NodeStatus {
        let failed = failed.map(|(version, retrying)| FailedVersion {
            version,
            error: "why".into(),
            retrying,
        });
        let node = NodeName::new(node).unwrap();
        NodeStatus { node, up, live: (live > 0).then_some(live), failed }
    }

    #[test]
    fn only_nodes_that_are_up_count_and_only_final_failures_end_the_wait() {
        let lagging = |text: &str| Progress::Lagging(vec![text.into()]);
        let failed = |node| Progress::Failed(NodeName::new(node).unwrap(), "why".into());
        let cases = [
            (vec![], Progress::Live),
            (vec![status("a", true, 2, None), status("b", false, 1, None)], Progress::Live),
            (vec![status("a", true, 1, None)], lagging("a")),
            (vec![status("a", true, 0, Some((1, false)))], lagging("a")),
            (vec![status("a", true, 0, Some((2, true)))], lagging("a (why)")),
            (vec![status("a", true, 0, None), status("b", true, 1, Some((2, false)))], failed("b")),
            (vec![status("a", true, 2, Some((2, false)))], Progress::Live),
        ];
        for (statuses, expected) in cases {
            assert_eq!(progress(&statuses, 2), expected, "{statuses:?}");
        }
    }
}
