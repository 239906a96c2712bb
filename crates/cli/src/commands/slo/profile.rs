//! `nacre slo profile`: measures what requests cost on each target.

use std::sync::Arc;
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{ErrorKind, PoolName, Result, Store, TargetName};
use nacre_qos::IoKind;
use nacre_slo::{MAX_OUTSTANDING, ProfilePlan, StoredProfile, profile_targets, remove_objects};
use serde_json::json;

use super::milliseconds;
use super::targets::Targets;
use crate::out::{Out, note, table};
use crate::signals::unless_interrupted;

/// The pool of the objects that are measured with. It is removed afterwards.
const POOL: &str = "nacre-slo-profile";
/// Samples that differ by more than this part of their mean make a profile that promises little.
const UNUSABLE: f64 = 0.5;

/// Measures all targets, stores the profiles and shows them.
pub(super) async fn profile(file: &ClusterFile, seconds: f64, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let time = Duration::from_secs_f64(seconds);
    let profiles = measure(file, &cluster, time).await?;
    tell_what_to_do(&cluster, &profiles).await?;
    let value: Vec<_> = profiles
        .iter()
        .map(|(target, stored)| {
            json!({ "target": target.as_str(), "blocking_seconds": stored.blocking_seconds(),
                    "profile": stored })
        })
        .collect();
    out.show(&value, || text(&profiles))
}

/// Measures all targets in about this time, and stores the profiles.
///
/// # Errors
/// `Unavailable` if a target does not answer.
pub(crate) async fn measure(
    file: &ClusterFile,
    cluster: &Cluster,
    time: Duration,
) -> Result<Vec<(TargetName, StoredProfile)>> {
    let pool = PoolName::new(POOL)?;
    cluster.create_pool(&pool).await?;
    let depth = MAX_OUTSTANDING.reads.requests.max(MAX_OUTSTANDING.writes.requests);
    // Of two who measure at a time each has objects of its own.
    let prefix = format!("{:016x}", Random::from_system().next_u64());
    let objects = Targets::new(file, cluster)?.objects(&pool, &prefix, depth).await?;
    let store: Arc<dyn Store> = cluster.store().clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = file.engine().unwrap_or("embedded").to_owned();
    let plan = ProfilePlan::within(time, format!("{engine}, nacre {}", env!("CARGO_PKG_VERSION")));
    let progress = |what: &str| note(&format!("measuring {what} on {} targets", objects.len()));
    let measured =
        unless_interrupted(profile_targets(&store, &objects, &plan, &clock, progress)).await;
    remove_objects(&store, &objects).await?;
    match cluster.remove_pool(&pool).await {
        // Somebody else still measures with it.
        Err(error) if error.kind() == ErrorKind::Conflict => {}
        removed => removed?,
    }
    let profiles = measured?;
    cluster.slos().set_profiles(&profiles).await?;
    Ok(profiles)
}

/// Says which profiles are of little use, and which promises were made with others.
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
            "{} tenants were promised a latency with the former profile: admit them again with --replace",
            promises.len()
        ));
    }
    Ok(())
}

fn text(profiles: &[(TargetName, StoredProfile)]) -> String {
    let mut rows = vec![];
    for (target, stored) in profiles {
        for row in stored.profile.rows() {
            let a_second =
                |kind| format!("{:.0}", 1.0 / stored.profile.work_seconds(kind, row.bytes));
            rows.push(vec![
                target.to_string(),
                row.bytes.to_string(),
                a_second(IoKind::Read),
                a_second(IoKind::Write),
            ]);
        }
    }
    let mut parts = vec![table(&["target", "bytes", "reads a second", "writes a second"], &rows)];
    for (target, stored) in profiles {
        parts.push(format!(
            "{target}: the samples differ by {:.0}%; a request may wait {} for those that were sent before it",
            stored.uncertainty * 100.0,
            milliseconds(stored.blocking_seconds())
        ));
    }
    parts.join("\n")
}
