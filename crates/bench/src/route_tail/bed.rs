//! What `route-tail` needs of the cluster on which it measures.

use nacre_object::{Error, Result, TargetName};
use nacre_route::ROUTED_POOL;

use super::Limited;
use super::trace::VOLUMES;
use crate::target_bed::TargetBed;

/// Storage targets: three with a volume, and three that are idle outside the burst.
pub(super) const TARGETS: usize = 6;

/// The targets of the volumes. None of them keeps what the controller or the switch changes when
/// rules change: an overloaded target would delay its own relief.
///
/// # Errors
/// `NotFound` if there are too few targets; as [`TargetBed::locate`].
pub(super) async fn volume_targets(bed: &TargetBed) -> Result<Vec<TargetName>> {
    let kept = match bed.is_on_ceph() {
        false => ["routes", "route-control"].map(|map| format!("nacre.system/map/{map}")).to_vec(),
        // A simulated device does not delay requests on maps.
        true => vec![format!("{ROUTED_POOL}/record")],
    };
    let mut targets = bed.targets(super::POOL).await?;
    for object in kept {
        let keeper = bed.locate(&object.parse()?).await?;
        targets.retain(|target| *target != keeper);
    }
    targets.truncate(VOLUMES);
    match targets.len() == VOLUMES {
        true => Ok(targets),
        false => Err(Error::not_found("the cluster has too few targets for this bench")),
    }
}

/// Limits targets to a number of requests a second.
///
/// # Errors
/// As [`TargetBed::locate`].
pub(super) async fn limit(
    bed: &TargetBed,
    limited: Limited,
    bursting: &TargetName,
    per_second: f64,
) -> Result<()> {
    for target in bed.targets(super::POOL).await? {
        if limited == Limited::All || target == *bursting {
            bed.limit(&target, per_second).await?;
        }
    }
    Ok(())
}
