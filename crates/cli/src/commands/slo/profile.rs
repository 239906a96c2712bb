//! `nacre slo profile`: measures the cost of requests on each target, or reads it from a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_node::SloTargets;
use nacre_object::{Error, Result, TargetName};
use nacre_qos::IoKind;
use nacre_slo::StoredProfile;
use serde::{Deserialize, Serialize};

use super::super::route::targets;
use super::input::read_json;
use super::milliseconds;
use crate::out::{Out, note, table};
use crate::signals::unless_interrupted;

/// If samples differ by more than this share of their mean, nacre can promise little with the
/// profile.
const UNUSABLE: f64 = 0.5;

/// How long to measure, or what to do instead
#[derive(Debug, clap::Args)]
pub struct ProfileArguments {
    /// Seconds that the measurement takes
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = crate::input::seconds)]
    seconds: f64,
    /// Show the stored profiles, and measure nothing
    #[arg(long, conflicts_with_all = ["seconds", "load"])]
    stored: bool,
    /// Store the profiles of this file, which `nacre slo profile --json` printed, and measure
    /// nothing
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    load: Option<PathBuf>,
}

/// A profile as it is printed, and read back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetProfile {
    target: String,
    /// How long a request may wait for earlier requests that the target already serves. It is
    /// computed from the profile.
    #[serde(default)]
    blocking_seconds: f64,
    profile: StoredProfile,
}

/// Measures all targets, or reads what was measured; stores the profiles and shows them.
pub(super) async fn profile(
    arguments: &ProfileArguments,
    file: &ClusterFile,
    out: Out,
) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let profiles = match &arguments.load {
        Some(path) => load(path, file, &cluster).await?,
        None if arguments.stored => cluster.slos().state().await?.profiles.into_iter().collect(),
        None => measure(file, &cluster, Duration::from_secs_f64(arguments.seconds)).await?,
    };
    if !arguments.stored {
        tell_what_to_do(&cluster, &profiles).await?;
    }
    let printed = profiles.iter().map(|(target, stored)| TargetProfile {
        target: target.to_string(),
        blocking_seconds: stored.blocking_seconds(),
        profile: stored.clone(),
    });
    out.show(&printed.collect::<Vec<_>>(), || text(&profiles, out))
}

/// Stores the profiles of a file. A target that the file does not name has no profile afterwards.
///
/// # Errors
/// `Invalid` if the file has no profiles, or names a target that does not exist or twice.
async fn load(
    path: &Path,
    file: &ClusterFile,
    cluster: &Cluster,
) -> Result<Vec<(TargetName, StoredProfile)>> {
    let read: Vec<TargetProfile> = read_json(path, "output of `nacre slo profile --json`")?;
    let profile = |one: TargetProfile| Ok((TargetName::new(one.target)?, one.profile));
    let profiles = read.into_iter().map(profile).collect::<Result<Vec<_>>>()?;
    let existing = targets(file, cluster).await?;
    let mut without: BTreeSet<_> = existing.iter().collect();
    for (target, _) in &profiles {
        if !without.remove(target) {
            let fault = match existing.contains(target) {
                true => format!("the file has two profiles of {target}"),
                false => format!("there is no target {target}"),
            };
            return Err(Error::invalid(fault)
                .hint("`nacre slo profile --stored --json` prints a valid file"));
        }
    }
    if profiles.is_empty() {
        return Err(Error::invalid("the file has no profiles")
            .hint("`nacre slo profile --json` prints a valid file"));
    }
    for target in without {
        note(&format!("{target} has no profile now, so nothing can be promised there"));
    }
    cluster.slos().set_profiles(&profiles).await?;
    Ok(profiles)
}

/// Measures all targets for about `time` in total, and stores the profiles.
///
/// # Errors
/// `Unavailable` if a target does not answer.
pub(crate) async fn measure(
    file: &ClusterFile,
    cluster: &Cluster,
    time: Duration,
) -> Result<Vec<(TargetName, StoredProfile)>> {
    let profiling = SloTargets::new(file, cluster)?.begin_profile(time).await?;
    let targets = profiling.targets();
    let progress = |what: &str| note(&format!("measuring {what} on {targets} targets"));
    let measured = unless_interrupted(profiling.measure(progress)).await;
    profiling.finish().await?;
    let profiles = measured?;
    cluster.slos().set_profiles(&profiles).await?;
    Ok(profiles)
}

/// Names the profiles of little use, and the promises that were made with other profiles.
async fn tell_what_to_do(
    cluster: &Cluster,
    profiles: &[(TargetName, StoredProfile)],
) -> Result<()> {
    for (target, stored) in profiles.iter().filter(|(_, stored)| stored.uncertainty > UNUSABLE) {
        note(&format!(
            "the samples of {target} differ by {:.0}%: far less can be promised than there is; measure again when the \
             machine does nothing else, or for longer",
            stored.uncertainty * 100.0
        ));
    }
    let promises = cluster.slos().state().await?.promises;
    if !promises.is_empty() {
        note(&format!(
            "{} tenants have promises from the former profile: admit them again with --replace",
            promises.len()
        ));
    }
    Ok(())
}

fn text(profiles: &[(TargetName, StoredProfile)], out: Out) -> String {
    let mut rows = vec![];
    for (target, stored) in profiles {
        for row in stored.profile.rows() {
            let a_second =
                |kind| format!("{:.0}", 1.0 / stored.profile.work_seconds(kind, row.bytes));
            rows.push(vec![
                target.to_string(),
                out.size(row.bytes),
                a_second(IoKind::Read),
                a_second(IoKind::Write),
            ]);
        }
    }
    let mut parts = vec![table(&["target", "size", "reads a second", "writes a second"], &rows)];
    for (target, stored) in profiles {
        parts.push(format!(
            "{target}: the samples differ by {:.0}%; a request may wait {} for those that were sent before it",
            stored.uncertainty * 100.0,
            milliseconds(stored.blocking_seconds())
        ));
    }
    parts.join("\n")
}
