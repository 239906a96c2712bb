//! `nacre node forget`: accepts that a storage target's data is lost, so that the target starts empty.

use std::collections::BTreeSet;
use std::path::Path;

use nacre::{
    Cluster, ClusterFile, FolderLock, LOG_OBJECT_PREFIX, LogName, LogOptions, Maps, RoleName,
};
use nacre_embedded::EmbeddedEngine;
use nacre_object::{Error, ListRequest, MapName, ObjectName, Result, Store};
use serde_json::json;

use super::salvage::open_copy;
use crate::out::{Out, note};

/// nacre's own maps, and the information that is lost with each.
const OWN_MAPS: [(&str, &str); 4] = [
    ("entities", "who may use the cluster, and what each may do"),
    ("programs", "which programs there are, and which versions are active"),
    ("pools", "which pools there are, besides the first two"),
    ("layouts", "in which layouts classes keep their objects"),
];

/// The arguments of `nacre node forget`
#[derive(Debug, clap::Args)]
pub struct ForgetArguments {
    /// The storage target, as `nacre status` names it
    #[arg(value_name = "NODE")]
    name: String,
    /// Really do it; without this option the command only shows what would be lost
    #[arg(long)]
    yes: bool,
}

/// Gives a target whose folder is lost a new identity, so that it can start empty.
///
/// # Errors
/// `Unavailable` while the cluster runs; `Invalid` if nothing is lost, the folder holds data, or
/// `--yes` is missing.
pub async fn run(arguments: &ForgetArguments, folder: &Path, out: Out) -> Result<()> {
    let ForgetArguments { name, yes } = arguments;
    // Before a lock is made for a cluster that is not there.
    let cluster = ClusterFile::read(folder)?;
    let lock = FolderLock::take(folder).map_err(|error| {
        error.hint("stop the cluster first, and run this command as the user who runs the cluster")
    })?;
    cluster.check_forgettable(name)?;
    let mut lost = lost_with(&cluster, name)?;
    lost.extend(lost_logs(&cluster, folder, name).await?);
    if !yes {
        let lines: Vec<_> = lost.iter().map(|what| format!("\n  {what}")).collect();
        note(&format!("{name} would start empty. Lost for good would be:{}", lines.concat()));
        return Err(Error::invalid("nothing was changed, because --yes is missing")
            .hint(format!("accept the loss with `nacre node forget {name} --yes`")));
    }
    cluster.forget_target(name, &lock)?;
    out.show(&json!({ "forgotten": name, "lost": lost }), || {
        format!("{name} starts empty with the next `nacre up`; lost is:\n  {}", lost.join("\n  "))
    })
}

/// What lies on a target, as far as placement tells.
fn lost_with(cluster: &ClusterFile, name: &str) -> Result<Vec<String>> {
    let total: f64 = cluster.with_role(RoleName::Storage).map(|node| node.weight).sum();
    let share = 100.0 * cluster.node(name)?.weight / total;
    let mut lost = vec![
        format!("all objects that lie on {name}: about {share:.0} % of each pool"),
        format!("the log records that lie on {name}: about {share:.0} % of each log"),
        format!("the sources of programs that lie on {name}: `nacre up` names those to put again"),
        format!(
            "your maps that lie on {name}: about {share:.0} %; `nacre map ls` then shows those that are left"
        ),
    ];
    let target = cluster.node(name)?.target()?;
    let reached = Cluster::reach(cluster)?;
    for (map, what) in OWN_MAPS {
        if reached.locate(&Maps::object(&MapName::new(map)?)) == target {
            lost.push(format!("the map {map}: {what}"));
        }
    }
    Ok(lost)
}

/// The logs that are lost completely, because only the forgotten target stored their views. A view
/// says which objects store the log's records. The names of these logs come from the logs' objects
/// on other targets.
async fn lost_logs(cluster: &ClusterFile, folder: &Path, name: &str) -> Result<Vec<String>> {
    let reached = Cluster::reach(cluster)?;
    let target = cluster.node(name)?.target()?;
    let mut names = BTreeSet::new();
    for other in cluster.with_role(RoleName::Storage).filter(|node| node.name.as_str() != name) {
        let storage = folder.join(other.name.as_str());
        // Logs on another target that cannot be opened stay unknown.
        if let Ok((engine, _, _scratch)) = open_copy(&storage) {
            names.extend(logs_on(&engine).await?);
            engine.close();
        }
    }
    names.retain(|log: &LogName| reached.locate(&Maps::object(log.map())) == target);
    Ok(names.iter().map(|log| format!("the log {log}, whole: its view lies on {name}")).collect())
}

/// The logs of which a target holds objects. It looks only in the default pool of logs.
async fn logs_on(engine: &EmbeddedEngine) -> Result<Vec<LogName>> {
    let pool = LogOptions::default().pool;
    let (mut logs, mut after) = (Vec::new(), None);
    loop {
        let prefix = LOG_OBJECT_PREFIX.to_owned();
        let request = ListRequest { pool: pool.clone(), after, prefix, limit: 1 };
        let Some(name) = engine.list(request).await?.names.into_iter().next() else {
            return Ok(logs);
        };
        let rest = name.as_str().strip_prefix(LOG_OBJECT_PREFIX).unwrap_or_default();
        let log = rest.split_once('/').map_or(rest, |(log, _)| log);
        // A `0` follows a `/`, so all objects of this log are before it.
        after = Some(ObjectName::new(format!("{LOG_OBJECT_PREFIX}{log}0"))?);
        logs.extend(LogName::new(log));
    }
}
