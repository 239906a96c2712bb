//! The reports of nodes about the programs that they made live.
//!
//! The map `program-status` has an entry for each program of each node, under `node/kind/name`: a
//! [`StatusReport`] as JSON. Only the node itself changes its entries. With each report a node also
//! sets its entry `node/order` to a new [`ReportOrder`]. So the map can refuse a report that
//! arrives after a later report of the same node.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, FaultSite, MapName, NodeName, Result};
use serde::{Deserialize, Serialize};

use super::handle::programs_map;
use super::{ProgramId, Programs};
use crate::maps::{Maps, PROGRAM_STATUS_MAP};
use crate::nodes::Nodes;

/// A node's report about one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusReport {
    /// The incarnation of the node that reported. The next incarnation starts without live
    /// programs.
    pub(crate) incarnation: u64,
    /// The activation that the node knew.
    pub(crate) activation: u64,
    /// The version that is live on the node.
    pub(crate) live: Option<u64>,
    /// The version that failed to become live, with the reason, if one did.
    pub(crate) failed: Option<FailedVersion>,
}

/// A version that a node could not make live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedVersion {
    /// The version; 0 if the program could not be dropped.
    pub version: u64,
    /// Why.
    pub error: String,
    /// Whether the node tries again, because something it needs was unavailable.
    pub retrying: bool,
}

/// The state of a program on one node.
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

/// Identifies a node's last commit of reports. No two commits of a node have the same value.
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
        serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!(
                "the report {key} in the map `program-status` is damaged: {cause}"
            ))
            .hint("remove it with `nacre map rm --system`, then restart the node")
        })
    }

    pub(crate) fn to_value(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("a report has nothing JSON lacks"))
    }
}

/// The map of reports.
pub(crate) fn status_map() -> MapName {
    MapName::new(PROGRAM_STATUS_MAP).expect("a well-formed literal")
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

/// Returns the state of a program on every node that is registered or has reported on it.
pub(super) async fn node_statuses(maps: &Maps, program: &ProgramId) -> Result<Vec<NodeStatus>> {
    Ok(heard(maps, program).await?.into_iter().map(|heard| heard.status).collect())
}

/// A node's report about a program: the program's state, and the number of the activation that the
/// report is about, if known.
struct Heard {
    status: NodeStatus,
    activation: Option<u64>,
}

impl Heard {
    fn nothing_of(node: NodeName, up: bool) -> Self {
        let status = NodeStatus { node, up, live: None, failed: None };
        Self { status, activation: None }
    }

    /// Whether the report is about an activation earlier than `activation`. The same version may
    /// have been activated before, so the version alone does not tell.
    fn is_before(&self, activation: u64) -> bool {
        self.activation.is_some_and(|heard_of| heard_of < activation)
    }
}

async fn heard(maps: &Maps, program: &ProgramId) -> Result<Vec<Heard>> {
    let nodes = Nodes::new(maps.clone()).list().await?;
    let reports = maps.get(&status_map()).await?;
    let mut statuses = BTreeMap::new();
    let mut incarnations = BTreeMap::new();
    for node in nodes {
        incarnations.insert(node.name.clone(), node.incarnation);
        statuses.insert(node.name.clone(), Heard::nothing_of(node.name, node.up));
    }
    let suffix = format!("/{program}");
    for (key, value) in &reports.entries {
        let Some(node) = key.strip_suffix(&suffix) else { continue };
        let node = NodeName::new(node)?;
        let report = StatusReport::parse(key, value)?;
        if incarnations.get(&node).is_some_and(|registered| *registered != report.incarnation) {
            continue;
        }
        let heard = statuses.entry(node.clone()).or_insert_with(|| Heard::nothing_of(node, false));
        heard.activation = Some(report.activation);
        heard.status.live = report.live;
        heard.status.failed = report.failed;
    }
    Ok(statuses.into_values().collect())
}

/// How far the program has become live on the nodes.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// It is live on every node that is up.
    Live,
    /// On these nodes the version is not live yet. Each string names a node, with the reason if the
    /// node reported one.
    Lagging(Vec<String>),
    /// This node cannot make it live.
    Failed(NodeName, String),
}

/// Judges the reports of nodes on a version that this activation made active.
fn progress(nodes: &[Heard], version: u64, activation: u64) -> Progress {
    let mut lagging = Vec::new();
    for heard in nodes.iter().filter(|heard| heard.status.up) {
        let status = &heard.status;
        match &status.failed {
            _ if heard.is_before(activation) => lagging.push(status.node.to_string()),
            _ if status.live == Some(version) => {}
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
    // `sleep` treats a timeout without end as far away. Adding it to the present time would
    // overflow.
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let maps = programs.maps();
    let mut reports = maps.watch(&status_map(), maps.epoch(&status_map()).await?);
    let mut activations = maps.watch(&programs_map(), maps.epoch(&programs_map()).await?);
    let mut nodes = Nodes::new(maps.clone()).watch().await?;
    loop {
        let record = programs.known(program).await?;
        if record.active != Some(version) {
            return Err(not_active(program, version, record.active));
        }
        let lagging = match progress(&heard(maps, program).await?, version, record.activation) {
            Progress::Live => return Ok(()),
            Progress::Failed(node, error) => {
                let text = format!("node {node} cannot make the program live: {error}");
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
    Error::unavailable(format!("{program} version {version} is not live yet on {nodes}")).hint(
        "each node follows as soon as it runs and reaches the store; `nacre status` shows which do not. On Ceph, \
         `nacre ceph forget NODE` drops a node that is gone for good",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that reported on activation 7.
    fn node(name: &str, up: bool, live: u64, failed: Option<(u64, bool)>) -> Heard {
        let failed = failed.map(|(version, retrying)| FailedVersion {
            version,
            error: "why".into(),
            retrying,
        });
        let node = NodeName::new(name).unwrap();
        let status = NodeStatus { node, up, live: (live > 0).then_some(live), failed };
        Heard { status, activation: Some(7) }
    }

    fn lagging(text: &str) -> Progress {
        Progress::Lagging(vec![text.into()])
    }

    #[test]
    fn only_nodes_that_are_up_count_and_only_final_failures_end_the_wait() {
        let failed = |node| Progress::Failed(NodeName::new(node).unwrap(), "why".into());
        let cases = [
            (vec![], Progress::Live),
            (vec![node("a", true, 2, None), node("b", false, 1, None)], Progress::Live),
            (vec![node("a", true, 1, None)], lagging("a")),
            (vec![node("a", true, 0, Some((1, false)))], lagging("a")),
            (vec![node("a", true, 0, Some((2, true)))], lagging("a (why)")),
            (vec![node("a", true, 0, None), node("b", true, 1, Some((2, false)))], failed("b")),
            (vec![node("a", true, 2, Some((2, false)))], Progress::Live),
        ];
        for (at, (nodes, expected)) in cases.into_iter().enumerate() {
            assert_eq!(progress(&nodes, 2, 7), expected, "case {at}");
        }
    }

    #[test]
    fn a_report_from_before_an_activation_does_not_count() {
        for failed in [None, Some((2, false))] {
            assert_eq!(progress(&[node("a", true, 2, failed)], 2, 8), lagging("a"));
        }
    }
}
