//! `nacre node forget`: accepts that a storage target's data is lost, so that the target starts empty.

use std::path::Path;

use nacre::{Cluster, ClusterFile, FolderLock, Maps, RoleName};
use nacre_object::{Error, MapName, Result};
use serde_json::json;

use crate::out::{Out, note};

/// The maps by which the cluster keeps its own affairs, and what is lost with each.
const OWN_MAPS: [(&str, &str); 4] = [
    ("entities", "who may use the cluster, and what each may do"),
    ("programs", "which programs there are, and which versions are active"),
    ("pools", "which pools there are, besides the first two"),
    ("layouts", "in which layouts classes keep their objects"),
];

/// What `nacre node forget` can be told
#[derive(Debug, clap::Args)]
pub struct ForgetArguments {
    /// The storage target, as `nacre status` names it
    name: String,
    /// Do it: without this the command only says what would be lost
    #[arg(long)]
    yes: bool,
}

/// Gives a target whose folder is lost a new identity.
///
/// # Errors
/// `Unavailable` while the cluster runs; `Invalid` if nothing is lost, the folder holds data, or `--yes` is
/// missing.
pub fn run(arguments: &ForgetArguments, folder: &Path, out: Out) -> Result<()> {
    let ForgetArguments { name, yes } = arguments;
    // Before a lock is made for a cluster that is not there.
    let cluster = ClusterFile::read(folder)?;
    let lock = FolderLock::take(folder).map_err(|error| {
        error.hint("stop the cluster first, and run this as the user who runs it")
    })?;
    cluster.check_forgettable(name)?;
    let lost = lost_with(&cluster, name)?;
    if !yes {
        let lines: Vec<_> = lost.iter().map(|what| format!("\n  {what}")).collect();
        note(&format!("{name} would start empty. Lost for good would be:{}", lines.concat()));
        return Err(Error::invalid("nothing was changed")
            .hint(format!("to accept this loss: nacre node forget {name} --yes")));
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
