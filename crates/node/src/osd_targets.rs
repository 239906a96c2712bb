//! Finds out which OSD serves an object, for a gateway that schedules and routes requests by OSD.
//!
//! RADOS maps an object to a placement group of its pool by a hash of its name, and each group has a
//! primary OSD. The gateway asks the monitors once for each group. An answer is valid until the epoch of
//! Ceph's map changes, which the gateway checks once a second. In between, the gateway may count a
//! request for the wrong OSD; at worst the request is late.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{ObjectId, PoolName, Result, TargetName};
use nacre_rados::{PlacementSeed, RadosEngine};
use nacre_slo::{Located, TargetOf};

/// Between two looks at the epoch.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The placement groups and OSDs that the monitors reported.
#[derive(Clone)]
pub(crate) struct OsdTargets {
    engine: RadosEngine,
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<Primaries>>,
}

#[derive(Debug, Default)]
struct Primaries {
    epoch: u64,
    looked_at: Duration,
    /// For each RADOS pool, by its number, its placement groups and their primaries.
    pools: BTreeMap<i64, PoolPrimaries>,
}

#[derive(Debug)]
struct PoolPrimaries {
    groups: u32,
    by_group: BTreeMap<u32, TargetName>,
}

impl OsdTargets {
    /// The targets of a Ceph cluster.
    pub fn new(engine: RadosEngine, clock: Arc<dyn Clock>) -> Self {
        Self { engine, clock, known: Arc::default() }
    }

    /// All OSDs.
    ///
    /// # Errors
    /// `Unavailable` if the monitors do not answer.
    pub async fn osds(&self) -> Result<Vec<TargetName>> {
        let osds = self.engine.osds().await?;
        osds.into_iter().map(|osd| TargetName::new(format!("osd.{osd}"))).collect()
    }

    /// Whether an OSD is certainly the primary of no placement group of the RADOS pool that holds a
    /// pool of nacre. The answer may be as old as those of [`target_of`](TargetOf::target_of).
    pub fn serves_nothing(&self, pool: &PoolName, target: &TargetName) -> bool {
        let known = self.known();
        let Some(known) = known.pools.get(&self.engine.known_rados_pool(pool)) else {
            return false;
        };
        let is_complete = known.groups > 0 && known.by_group.len() == known.groups as usize;
        is_complete && !known.by_group.values().any(|primary| primary == target)
    }

    fn known(&self) -> MutexGuard<'_, Primaries> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(self, object: ObjectId) -> Result<TargetName> {
        let location = self.engine.locate(&object).await?;
        // Without a primary OSD, the request waits in librados, as it would without nacre.
        let name = match location.primary {
            ..0 => "osd.none".to_owned(),
            primary => format!("osd.{primary}"),
        };
        let target = TargetName::new(name)?;
        let pool = self.engine.known_rados_pool(&object.pool);
        let is_known = {
            let known = self.known();
            known.epoch == location.epoch && known.pools.contains_key(&pool)
        };
        if !is_known {
            let groups = self.engine.placement_groups(&object.pool).await?;
            let looked_at = self.clock.monotonic();
            let mut known = self.known();
            if known.epoch != location.epoch {
                let (epoch, pools) = (location.epoch, BTreeMap::new());
                *known = Primaries { epoch, looked_at, pools };
            }
            known.pools.insert(pool, PoolPrimaries { groups, by_group: BTreeMap::new() });
        }
        let mut known = self.known();
        if let Some(known) = known.pools.get_mut(&pool) {
            let group = PlacementSeed::of(&object).group_of(known.groups);
            known.by_group.insert(group, target.clone());
        }
        Ok(target)
    }
}

impl fmt::Debug for OsdTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OsdTargets").field("known", &*self.known()).finish_non_exhaustive()
    }
}

impl TargetOf for OsdTargets {
    fn target_of(&self, object: &ObjectId) -> Located {
        let now = self.clock.monotonic();
        let mut known = self.known();
        let pool = known.pools.get(&self.engine.known_rados_pool(&object.pool));
        let target = pool.and_then(|pool| {
            let group = PlacementSeed::of(object).group_of(pool.groups);
            pool.by_group.get(&group)
        });
        if now < known.looked_at + LOOK_INTERVAL
            && let Some(target) = target
        {
            return Located::At(target.clone());
        }
        // Requests that arrive meanwhile use the answers that are known.
        known.looked_at = now;
        drop(known);
        Located::Ask(Box::pin(self.clone().ask(object.clone())))
    }

    fn all(&self) -> TargetName {
        TargetName::new("ceph").expect("a literal")
    }
}
