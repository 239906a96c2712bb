//! `nacre status`: asks every node for its status, and asks the supervisor about nodes that have
//! ended.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::{Cluster, ClusterFile, Error, ErrorKind, NodeEntry, Result, Sessions};
use nacre_balance::NodeTraits;
use nacre_node::{
    Layouts, NODE_SERVICE, NodeReport, RefusalReport, StorageReport, SupervisedReport,
    supervised_nodes,
};
use serde_json::json;

use super::{brados_layouts, node_set};
use crate::out::{Out, table, utc};

/// A node that says nothing for so long is shown as down.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks every node for its status, and shows all nodes, including those that do not answer.
///
/// # Errors
/// `Unavailable` if no node answers.
pub async fn run(file: &ClusterFile, out: Out) -> Result<()> {
    let sessions = Sessions::new(file)?;
    let asked = file.nodes().iter().map(|node| ask(&sessions, node));
    let (reports, kept) = tokio::join!(join_all(asked), supervised_nodes(file, NODE_TIMEOUT));
    // From another machine, or without a supervisor, the ends of nodes are unknown.
    let kept = kept.unwrap_or_default();
    if out.is_json() {
        for (node, report) in &reports {
            let mut line = match report {
                Ok(report) => json!({ "node": node.name, "up": true, "report": report }),
                Err(error) => json!({ "node": node.name, "up": is_up(error),
                    "error": error.to_string() }),
            };
            if let Some(kept) = kept.iter().find(|kept| kept.name == node.name) {
                line["supervisor"] = json!(kept);
            }
            out.show(&line, String::new)?;
        }
    } else {
        out.line(&render(&reports, out))?;
        out.line(&traits(&reports))?;
        out.line(&full_disks(file, &reports))?;
        out.line(&ends(&kept))?;
        out.line(&layouts(file).await)?;
    }
    if reports.iter().any(|(_, report)| report.is_ok()) {
        return Ok(());
    }
    // If a node refused this entity, report the refusal.
    let mut errors = reports.iter().filter_map(|(_, report)| report.as_ref().err());
    let denied = errors.find(|error| error.kind() == ErrorKind::Denied).cloned();
    Err(denied.unwrap_or_else(|| nobody_answers(file, &kept)))
}

/// Whether a node that gave no status is up. `None` means unknown: the node refused to tell this
/// entity its status, so it is probably up.
fn is_up(error: &Error) -> Option<bool> {
    (error.kind() != ErrorKind::Denied).then_some(false)
}

fn nobody_answers(file: &ClusterFile, kept: &[SupervisedReport]) -> Error {
    if file.folder().as_os_str().is_empty() {
        let places: Vec<_> =
            file.nodes().iter().filter_map(|node| node.address.as_deref()).collect();
        return Error::unavailable(format!("no node answers at {}", places.join(", ")))
            .hint("check that the nodes run, and that this machine reaches these addresses");
    }
    let hint = match kept.is_empty() {
        true => "start the cluster with `nacre up`",
        false => "`nacre up` runs, and restarts the nodes; its output says why they end",
    };
    Error::unavailable(format!("no node of {} answers", file.folder().display())).hint(hint)
}

/// The labels and capacities that the operator has set for nodes. Nodes without any are left out.
fn traits(reports: &[(&NodeEntry, Result<NodeReport>)]) -> String {
    let lines = reports.iter().filter_map(|(node, report)| {
        let traits = report.as_ref().ok()?.traits.as_ref()?;
        let is_said = *traits != NodeTraits::default();
        is_said.then(|| format!("\n{}: {}", node.name, node_set::described(traits)))
    });
    lines.collect()
}

/// What to do about full disks; nothing if none is full.
fn full_disks(file: &ClusterFile, reports: &[(&NodeEntry, Result<NodeReport>)]) -> String {
    let is_full = |report: &NodeReport| report.storage.as_ref().is_some_and(StorageReport::is_full);
    let full = reports.iter().filter(|(_, report)| report.as_ref().is_ok_and(is_full));
    let lines = full.map(|(node, _)| {
        let (name, folder) = (&node.name, file.data(node));
        format!(
            "\n{name} is full: remove objects (`nacre object rm`), trim logs (`nacre log trim`), or free \
             space on the disk of {}",
            folder.display()
        )
    });
    lines.collect()
}

/// The nodes that ended, why, and what comes of it.
fn ends(kept: &[SupervisedReport]) -> String {
    let lines = kept.iter().filter_map(|node| {
        let end = node.last_end.as_ref()?;
        let next = match node.next_start_at_micros {
            Some(at) => format!(", next at {}", utc(at)),
            None => String::new(),
        };
        let (name, ended, times) = (&node.name, utc(end.at_micros), node.restarts);
        Some(format!(
            "\n{name}: ended at {ended}: {}; started again {times} times{next}",
            end.reason
        ))
    });
    lines.collect()
}

/// The classes whose layout is changing. Empty if no node answers.
async fn layouts(file: &ClusterFile) -> String {
    let known = async { Layouts::of(&Cluster::reach(file)?).all().await };
    let Ok(Ok(classes)) = tokio::time::timeout(NODE_TIMEOUT, known).await else {
        return String::new();
    };
    let told = classes.iter().filter_map(|(class, layout)| {
        brados_layouts::told(layout).map(|told| format!("\nlayout of {class}: {told}"))
    });
    told.collect()
}

async fn ask<'a>(sessions: &Sessions, node: &'a NodeEntry) -> (&'a NodeEntry, Result<NodeReport>) {
    let report = async {
        let session = sessions.session(&node.name)?;
        let answer = session.ask(NODE_SERVICE, "status", Bytes::new(), NODE_TIMEOUT).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Error::new(
                ErrorKind::Corrupt,
                format!("the status of {} cannot be read: {error}", node.name),
            )
        })
    };
    (node, report.await)
}

fn state(report: &NodeReport, out: Out) -> String {
    let silent = report.rados.as_ref().and_then(|rados| rados.silent_since_micros);
    let refused = report.refusal.as_ref().map(|_| "refused".to_owned());
    let kept = refused
        .or_else(|| report.storage.as_ref().and_then(|storage| state_of_storage(storage, out)));
    let state = kept.or_else(|| silent.map(|since| format!("Ceph silent since {}", utc(since))));
    state.unwrap_or_else(|| "up".into())
}

fn state_of_storage(storage: &StorageReport, out: Out) -> Option<String> {
    if let Some(failure) = &storage.failure {
        return Some(format!("read-only: {failure}"));
    }
    let (free, reserve) = (storage.free_bytes, storage.reserve_bytes);
    storage
        .is_full()
        .then(|| format!("full: {} of {} reserved are left", out.size(free), out.size(reserve)))
}

fn render(reports: &[(&NodeEntry, Result<NodeReport>)], out: Out) -> String {
    let row = |(node, report): &(&NodeEntry, Result<NodeReport>)| {
        let roles: Vec<_> = node.roles.iter().map(|role| role.as_str()).collect();
        let roles = roles.join(",");
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                let state = is_up(error).map_or("denied", |_| "down");
                return vec![node.name.clone(), state.into(), roles];
            }
        };
        let storage = report.storage.as_ref();
        let number = |n: Option<u64>| n.map_or("-".into(), |n| n.to_string());
        let classes: Vec<_> =
            report.classes.iter().map(|(name, version)| format!("{name}@{version}")).collect();
        vec![
            node.name.clone(),
            state(report, out),
            roles,
            report.pid.to_string(),
            utc(report.started_at_micros),
            number(storage.map(|storage| storage.transactions)),
            number(storage.map(|storage| storage.syncs)),
            storage.map_or("-".into(), |storage| out.size(storage.journal_bytes)),
            report.metrics.to_string(),
            if classes.is_empty() { "-".into() } else { classes.join(" ") },
        ]
    };
    let header = [
        "node",
        "state",
        "roles",
        "pid",
        "since",
        "transactions",
        "syncs",
        "journal",
        "metrics",
        "classes",
    ];
    let table = table(&header, &reports.iter().map(row).collect::<Vec<_>>());
    let osds = reports.iter().filter_map(|(node, report)| {
        let survey = report.as_ref().ok()?.osds.as_ref()?;
        Some(format!("\n{}: {survey}", node.name))
    });
    let refusals = reports.iter().filter_map(|(_, report)| {
        let RefusalReport { reason, hint } = report.as_ref().ok()?.refusal.as_ref()?;
        let hint = hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default();
        Some(format!("\n{reason}{hint}"))
    });
    let long_answers = reports.iter().filter_map(|(node, report)| {
        let methods = report.as_ref().ok()?.rados.as_ref()?.long_answer_methods.join(" ");
        let (name, why) = (&node.name, "answers are too long for the OSDs to run them");
        (!methods.is_empty()).then(|| format!("\n{name}: runs {methods}, whose {why}"))
    });
    std::iter::once(table).chain(refusals).chain(osds).chain(long_answers).collect()
}
