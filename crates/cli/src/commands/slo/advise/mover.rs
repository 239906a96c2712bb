//! `Mover`: moves the RADOS pools of tenants to OSDs, watches that, and takes it back.
//!
//! A move gives all placement groups of the tenant's RADOS pools the wanted OSD as their primary
//! ([`nacre_rados::PoolPlacement`]). Ceph then moves the data while clients go on. The record of a
//! move is stored before Ceph is changed, so a move can be taken back however its command ends.
//!
//! **Invariant:** a command to Ceph is never abandoned halfway: a signal counts between commands.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt;
use nacre::{Cluster, Event, Severity};
use nacre_clock::{Clock, SystemClock};
use nacre_node::SloTargets;
use nacre_object::{Error, ErrorKind, ObjectId, ObjectName, Result, TargetName, TenantName};
use nacre_qos::ArrivalCurve;
use nacre_rados::{Administrator, Overrides, PoolPlacement, PrimaryProgress};
use nacre_slo::{FormerOverrides, MovedPool, MovedTenant, Placement, SloState};

use super::movable::Movable;
use crate::out::note;
use crate::signals::{Interrupts, interrupted};

/// How often the placement groups are asked for their state.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long the gateways have to notice that another OSD serves a pool. They look once a second.
const GATEWAY_PATIENCE: Duration = Duration::from_secs(15);
/// How long requests may take that were sent before the move had ended.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The mode in which Ceph never changes the number of placement groups. It would make groups that
/// are not at the wanted OSD.
const NO_AUTOSCALE: &str = "off";
/// The mode in which Ceph changes it by itself.
const AUTOSCALE: &str = "on";

/// How long a mover waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Until Ceph has moved the data.
    pub data: Duration,
    /// While it watches for missed promises, before the move and after it.
    pub watch: Duration,
}

/// Moves tenants on a Ceph cluster.
pub(super) struct Mover<'a> {
    pub cluster: &'a Cluster,
    pub targets: &'a SloTargets,
    pub administrator: Administrator,
    pub patience: Patience,
    pub clock: SystemClock,
    pub interrupts: Interrupts,
    /// What was told last about the progress.
    pub told: Cell<Option<PrimaryProgress>>,
}

/// A move that was planned. Nothing has been changed for it.
pub(super) struct PlannedMove {
    tenant: TenantName,
    target: TargetName,
    osd: i32,
    curve: ArrivalCurve,
    pools: Vec<PlannedPool>,
    /// The record to store.
    record: Placement,
    /// An object of each pool of the tenant, by which to see which OSD serves the pool.
    probes: Vec<ObjectId>,
}

struct PlannedPool {
    present: PoolPlacement,
    /// For each placement group, the OSDs that shall keep it.
    groups: BTreeMap<String, Vec<i32>>,
}

impl PlannedMove {
    /// A line for people.
    pub fn describe(&self) -> String {
        let pools: Vec<_> = self.pools.iter().map(|pool| pool.present.pool.as_str()).collect();
        let groups: usize = self.pools.iter().map(|pool| pool.groups.len()).sum();
        let (tenant, target) = (&self.tenant, &self.target);
        format!(
            "{target} serves all {groups} placement groups of {tenant} (RADOS pool {})",
            pools.join(", ")
        )
    }
}

impl Mover<'_> {
    /// Plans the advised moves and changes nothing. Everything that can be checked before is.
    ///
    /// # Errors
    /// The reason why a tenant cannot be moved, with what to do.
    pub async fn plan(
        &self,
        advised: &[nacre_slo::Move],
        movable: &Movable<'_>,
        state: &SloState,
    ) -> Result<Vec<PlannedMove>> {
        let mut moves = vec![];
        for advised in advised {
            let tenant: TenantName = advised.tenant.parse()?;
            let target = TargetName::new(&advised.to)?;
            let osd = osd_of(&target)?;
            let mut pools = vec![];
            for rados_pool in movable.rados_pools_of(&tenant)? {
                let present = self.administrator.placement(&rados_pool).await?;
                let groups = present.plan(osd).map_err(|error| error.on(&rados_pool))?;
                pools.push(PlannedPool { present, groups });
            }
            let probe = |pool: &&nacre_object::PoolName| {
                Ok(ObjectId { pool: (*pool).clone(), name: ObjectName::new("nacre-probe")? })
            };
            let probes = movable.pools_of(&tenant).iter().map(probe).collect::<Result<_>>()?;
            let record = self.record(&tenant, &target, &pools, state);
            let curve = advised.curve.clone();
            moves.push(PlannedMove { tenant, target, osd, curve, pools, record, probes });
        }
        Ok(moves)
    }

    /// The record of a move that begins.
    fn record(
        &self,
        tenant: &TenantName,
        target: &TargetName,
        pools: &[PlannedPool],
        state: &SloState,
    ) -> Placement {
        Placement {
            target: target.to_string(),
            is_complete: false,
            began_at_micros: self.clock.now_micros(),
            former_promise: state.promises.get(tenant).cloned(),
            pools: pools.iter().map(|pool| as_found(&pool.present)).collect(),
        }
    }

    /// Carries out planned moves, and watches whether promises are missed. If a step fails, or the
    /// person interrupts it, takes back what was done.
    ///
    /// # Errors
    /// Why the moves were taken back.
    pub async fn apply(&self, moves: &[PlannedMove]) -> Result<()> {
        match self.try_apply(moves).await {
            Ok(()) => {
                for done in moves {
                    self.tell(Severity::Info, &done.tenant, done.describe()).await;
                }
                Ok(())
            }
            Err(error) => Err(self.take_back(moves, error).await),
        }
    }

    async fn try_apply(&self, moves: &[PlannedMove]) -> Result<()> {
        let before = self.misses_while_watching().await?;
        for planned in moves {
            self.check_interrupted()?;
            self.cluster.slos().begin_move(&planned.tenant, &planned.record).await?;
            for pool in &planned.pools {
                self.pin(pool).await?;
            }
        }
        self.await_primaries(moves).await?;
        self.await_gateways(moves).await?;
        let moved = |planned: &PlannedMove| MovedTenant {
            tenant: planned.tenant.clone(),
            target: planned.target.clone(),
            curve: planned.curve.clone(),
        };
        self.cluster.slos().finish_moves(&moves.iter().map(moved).collect::<Vec<_>>()).await?;
        self.pause(SETTLE_TIME).await?;
        let after = self.misses_while_watching().await?;
        let worse = after
            .iter()
            .find(|(tenant, misses)| **misses > before.get(*tenant).copied().unwrap_or(0));
        match worse {
            None => Ok(()),
            Some((tenant, misses)) => {
                let seconds = self.patience.watch.as_secs_f64();
                Err(Error::exhausted(format!(
                    "{misses} requests of {tenant} took longer than promised within {seconds} s after the move"
                ))
                .hint("see `nacre slo status` and `nacre events`; measure again with `nacre slo profile`"))
            }
        }
    }

    /// Overrides CRUSH for each placement group of a pool.
    async fn pin(&self, pool: &PlannedPool) -> Result<()> {
        let PlannedPool { present, groups } = pool;
        if present.autoscale_mode == AUTOSCALE {
            self.administrator.set_autoscale_mode(&present.pool, NO_AUTOSCALE).await?;
        }
        for group in &present.groups {
            self.check_interrupted()?;
            let Some(osds) = groups.get(&group.group) else { continue };
            let wanted = Overrides { osds: osds.clone(), replaced: vec![] };
            self.administrator.set_overrides(&group.group, &group.overrides, &wanted).await?;
        }
        Ok(())
    }

    /// Waits until the wanted OSDs serve all placement groups, with all copies in place.
    async fn await_primaries(&self, moves: &[PlannedMove]) -> Result<()> {
        let deadline = self.clock.monotonic() + self.patience.data;
        loop {
            let mut all = PrimaryProgress::default();
            for planned in moves {
                for pool in &planned.pools {
                    let groups: Vec<_> = pool.groups.keys().cloned().collect();
                    let wanted = Some(planned.osd);
                    let progress = self.administrator.primary_progress(&groups, wanted).await?;
                    if progress.mapped < progress.groups {
                        return Err(not_mapped(planned, &pool.present.pool, progress));
                    }
                    all = sum(all, progress);
                }
            }
            self.tell_progress(all);
            if all.is_done() {
                return Ok(());
            }
            self.check_interrupted()?;
            if self.clock.monotonic() > deadline {
                let seconds = self.patience.data.as_secs_f64();
                return Err(Error::unavailable(format!(
                    "Ceph has not moved the data within {seconds} s: {} of {} placement groups are ready",
                    all.clean, all.groups
                ))
                .hint("see `ceph health detail`; wait longer with --wait"));
            }
            self.pause(LOOK_INTERVAL).await?;
        }
    }

    /// Waits until the gateways count requests on the moved pools for the new targets.
    async fn await_gateways(&self, moves: &[PlannedMove]) -> Result<()> {
        let deadline = self.clock.monotonic() + GATEWAY_PATIENCE;
        for planned in moves {
            for probe in &planned.probes {
                while self.targets.locate(probe).await? != planned.target {
                    if self.clock.monotonic() > deadline {
                        return Err(Error::unavailable(format!(
                            "the gateways still find the pool {} elsewhere than at {}",
                            probe.pool, planned.target
                        ))
                        .hint("see whether the gateways reach the monitors: nacre status"));
                    }
                    self.pause(LOOK_INTERVAL).await?;
                }
            }
        }
        Ok(())
    }

    /// How many requests of each tenant take longer than promised within the time to watch. None if
    /// promises are not enforced.
    async fn misses_while_watching(&self) -> Result<BTreeMap<String, u64>> {
        if !self.cluster.slos().state().await?.is_enforced {
            return Ok(BTreeMap::new());
        }
        let before = self.misses().await?;
        self.pause(self.patience.watch).await?;
        let mut missed = BTreeMap::<String, u64>::new();
        for ((node, target, tenant), misses) in self.misses().await? {
            let known = before.get(&(node, target, tenant.clone())).copied().unwrap_or(0);
            *missed.entry(tenant).or_default() += misses.saturating_sub(known);
        }
        Ok(missed)
    }

    /// The requests of each tenant to each target that took longer than promised, as each node has
    /// counted them.
    async fn misses(&self) -> Result<BTreeMap<(String, String, String), u64>> {
        let mut misses = BTreeMap::new();
        for (node, targets) in self.targets.reports().await? {
            for target in targets {
                for tenant in target.tenants {
                    let key = (node.clone(), target.target.clone(), tenant.tenant);
                    misses.insert(key, tenant.misses);
                }
            }
        }
        Ok(misses)
    }

    /// Takes unfinished moves back after the failure `reason`. Returns the error for the user, which
    /// also says what could not be taken back.
    async fn take_back(&self, moves: &[PlannedMove], reason: Error) -> Error {
        let (mut left, mut has_begun) = (vec![], false);
        for planned in moves.iter().rev() {
            match self.take_back_one(planned).await {
                Ok(is_taken) => has_begun |= is_taken,
                Err(error) => left.push(format!("{}: {error}", planned.tenant)),
            }
        }
        if !has_begun && left.is_empty() && !self.is_interrupted() {
            return reason;
        }
        let text = match left.is_empty() {
            true => format!("{}; what was done is taken back", reason.message()),
            false => format!(
                "{}; not everything could be taken back: {}",
                reason.message(),
                left.join("; ")
            ),
        };
        for planned in moves {
            self.tell(Severity::Warning, &planned.tenant, text.clone()).await;
        }
        let hint = match (left.is_empty(), reason.hint_text()) {
            (true, hint) => hint.map(str::to_owned),
            (false, _) => Some("repeat it: nacre slo advise --undo TENANT".to_owned()),
        };
        let error = match self.is_interrupted() {
            true => interrupted(&text),
            false => Error::new(reason.kind(), text),
        };
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// Takes one move back. Returns whether it had begun.
    async fn take_back_one(&self, planned: &PlannedMove) -> Result<bool> {
        let state = self.cluster.slos().state().await?;
        let own = |record: &&Placement| record.began_at_micros == planned.record.began_at_micros;
        let Some(record) = state.placements.get(&planned.tenant).filter(own) else {
            return Ok(false);
        };
        if record.is_complete {
            self.cluster.slos().begin_return(&planned.tenant).await?;
        }
        for pool in &planned.pools {
            self.restore(&as_found(&pool.present)).await?;
        }
        self.cluster.slos().forget_move(&planned.tenant).await?;
        Ok(true)
    }

    /// Gives the placement groups of a pool the overrides that they had.
    async fn restore(&self, former: &MovedPool) -> Result<Vec<String>> {
        let present = self.administrator.placement(&former.rados_pool).await?;
        for group in &present.groups {
            let wanted = former.overrides.get(&group.group).cloned().unwrap_or_default();
            let wanted = Overrides { osds: wanted.osds, replaced: wanted.replaced };
            self.administrator.set_overrides(&group.group, &group.overrides, &wanted).await?;
        }
        if let Some(mode) = &former.autoscale_mode {
            self.administrator.set_autoscale_mode(&former.rados_pool, mode).await?;
        }
        Ok(present.groups.into_iter().map(|group| group.group).collect())
    }

    /// Moves the pools of a tenant back to where they were before `--apply`.
    ///
    /// # Errors
    /// `NotFound` if the tenant was not moved; `Exhausted` if not all promises could be kept then;
    /// `Unavailable` if Ceph takes longer than the patience: it goes on nevertheless.
    pub async fn undo(&self, tenant: &TenantName) -> Result<Placement> {
        let record = self.cluster.slos().begin_return(tenant).await?;
        let mut groups = vec![];
        for pool in &record.pools {
            match self.restore(pool).await {
                // Whoever deleted the pool took back the move as well.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                restored => groups.extend(restored?),
            }
        }
        self.cluster.slos().forget_move(tenant).await?;
        let pools: BTreeSet<_> = record.pools.iter().map(|pool| pool.rados_pool.clone()).collect();
        let pools = pools.into_iter().collect::<Vec<_>>().join(", ");
        let text = format!("{tenant} was moved back from {} (RADOS pool {pools})", record.target);
        self.tell(Severity::Info, tenant, text).await;
        self.await_settled(&groups).await?;
        Ok(record)
    }

    /// Waits until all copies of some placement groups are in place.
    async fn await_settled(&self, groups: &[String]) -> Result<()> {
        let deadline = self.clock.monotonic() + self.patience.data;
        loop {
            let progress = self.administrator.primary_progress(groups, None).await?;
            self.tell_progress(progress);
            if progress.is_done() {
                return Ok(());
            }
            let go_on = "the move is taken back, and Ceph goes on moving the data";
            if self.is_interrupted() {
                return Err(interrupted(go_on));
            }
            if self.clock.monotonic() > deadline {
                return Err(Error::unavailable(go_on).hint("see `ceph health detail`"));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn tell_progress(&self, progress: PrimaryProgress) {
        if self.told.replace(Some(progress)) != Some(progress) {
            note(&format!(
                "{} of {} placement groups are served with all copies in place",
                progress.clean, progress.groups
            ));
        }
    }

    /// Adds an event about a tenant to the cluster log.
    async fn tell(&self, severity: Severity, tenant: &TenantName, text: String) {
        let event = Event::new(severity, text).field("tenant", tenant.as_str());
        // The command itself says it as well.
        let _ = self.cluster.events().append(event).await;
    }

    fn is_interrupted(&self) -> bool {
        self.interrupts.first().now_or_never().is_some()
    }

    fn check_interrupted(&self) -> Result<()> {
        match self.is_interrupted() {
            true => Err(interrupted("interrupted")),
            false => Ok(()),
        }
    }

    /// Waits for a while, unless the person interrupts.
    async fn pause(&self, time: Duration) -> Result<()> {
        tokio::select! {
            () = self.interrupts.first() => Err(interrupted("interrupted")),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

/// What places a pool at present, as a record from which it can be restored.
fn as_found(present: &PoolPlacement) -> MovedPool {
    let is_changed = present.autoscale_mode == AUTOSCALE;
    let overridden = present.groups.iter().filter(|group| group.overrides != Overrides::default());
    let former = |overrides: &Overrides| FormerOverrides {
        osds: overrides.osds.clone(),
        replaced: overrides.replaced.clone(),
    };
    MovedPool {
        rados_pool: present.pool.clone(),
        autoscale_mode: is_changed.then(|| present.autoscale_mode.clone()),
        overrides: overridden
            .map(|group| (group.group.clone(), former(&group.overrides)))
            .collect(),
    }
}

fn osd_of(target: &TargetName) -> Result<i32> {
    let number = target.as_str().strip_prefix("osd.").and_then(|number| number.parse().ok());
    number.ok_or_else(|| {
        Error::unsupported(format!("the target {target} is no OSD"))
            .hint("measure the OSDs: nacre slo profile")
    })
}

fn sum(one: PrimaryProgress, other: PrimaryProgress) -> PrimaryProgress {
    PrimaryProgress {
        groups: one.groups + other.groups,
        mapped: one.mapped + other.mapped,
        clean: one.clean + other.clean,
    }
}

fn not_mapped(planned: &PlannedMove, pool: &str, progress: PrimaryProgress) -> Error {
    let target = &planned.target;
    Error::unavailable(format!(
        "{} of {} placement groups of the RADOS pool {pool} did not get {target} as their primary",
        progress.groups - progress.mapped,
        progress.groups
    ))
    .hint(format!(
        "see whether {target} still serves (`ceph osd tree`), and whether the pool's CRUSH rule admits it \
         (`ceph osd pool get {pool} crush_rule`)"
    ))
}
