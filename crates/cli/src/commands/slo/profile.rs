//! `nacre slo profile`: measures what requests cost on each target.

use std::sync::Arc;
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{PoolName, Result, Store, TargetName};
use nacre_qos::IoKind;
use nacre_slo::{MAX_OUTSTANDING, ProfilePlan, StoredProfile, profile_targets};
use serde_json::json;

use super::milliseconds;
use super::targets::Targets;
use crate::out::{Out, note, table};

/// The pool of the objects that are measured with. It is removed afterwards.
const POOL: &str = "nacre-slo-profile";

/// Measures all targets, stores the profiles and shows them.
pub(super) async fn profile(file: &ClusterFile, seconds: f64, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let time = Duration::from_secs_f64(seconds);
    let profiles = measure(file, &cluster, time).await?;
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
    let objects = Targets::new(file, cluster)?.objects(&pool, depth).await?;
    let store: Arc<dyn Store> = cluster.store().clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = file.engine().unwrap_or("embedded").to_owned();
    let plan = ProfilePlan::within(time, format!("{engine}, nacre {}", env!("CARGO_PKG_VERSION")));
    let progress = |what: &str| note(&format!("measuring {what} on {} targets", objects.len()));
    let profiles = profile_targets(&store, &objects, &plan, &clock, progress).await?;
    cluster.remove_pool(&pool).await?;
    cluster.slos().set_profiles(&profiles).await?;
    Ok(profiles)
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
            "{target}: measured within {:.0}%; a request may wait {} for those that were sent before it",
            stored.uncertainty * 100.0,
            milliseconds(stored.blocking_seconds())
        ));
    }
    parts.join("\n")
}
