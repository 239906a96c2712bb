//! `nacre slo advise`: proposes which tenants to move to which targets, so that the cluster can keep
//! all promises. On Ceph it also carries out the moves, and takes them back.
//!
//! [`movable`] says which tenants can be moved, [`mover`] moves them.

mod movable;
mod mover;
mod text;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_clock::SystemClock;
use nacre_node::{CephPools, SloTargets};
use nacre_object::{Error, Result, TargetName, TenantName};
use nacre_qos::IoKind;
use nacre_rados::{Administrator, RadosOptions};
use nacre_slo::{Advice, Ask, Rate, Spread, Traffic, advise};
use serde::Serialize;
use serde_json::json;

use self::movable::Movable;
use self::mover::{Mover, Patience};
use self::text::text;
use super::units;
use crate::commands::balancer_cephfs::conf;
use crate::input::seconds;
use crate::out::Out;
use crate::signals::Interrupts;

/// The default of `--wait`. Ceph moves some hundred GB in this time.
const DATA_SECONDS: f64 = 1800.0;
/// The default of `--watch`.
const WATCH_SECONDS: f64 = 10.0;
/// Why nothing is moved on the embedded engine.
const NOT_EMBEDDED: &str = "the embedded engine cannot move a tenant to a chosen target: an object's name and the \
     weights of all targets decide where it is, and a route moves only plain writes, while reads of older bytes, \
     appends and method calls stay where they are";

/// Whom to advise for, and whether to do it
#[derive(Debug, clap::Args)]
pub struct AdviseArguments {
    /// A further tenant that should get a promise, for example one that was refused
    #[arg(long = "for", value_name = "TENANT", requires_all = ["latency", "rate", "size"])]
    newcomer: Option<TenantName>,
    /// The promised latency of that tenant's requests, such as 20ms or 0.5s
    #[arg(long, value_name = "TIME", value_parser = units::latency, requires = "newcomer")]
    latency: Option<Duration>,
    /// That tenant's rate, in requests a second
    #[arg(long, value_name = "PER_SECOND", requires = "newcomer")]
    rate: Option<f64>,
    /// The share of that tenant's requests that may take longer, such as 0.001 (default: none).
    /// Only for a tenant whose bursts are independent of those of other tenants
    #[arg(long, value_name = "PROBABILITY", value_parser = units::violation, requires = "newcomer")]
    violation: Option<f64>,
    /// The size of each request, such as 4096 or 4k
    #[arg(long, value_name = "BYTES", value_parser = units::size, requires = "newcomer")]
    size: Option<u64>,
    /// The kind of the requests
    #[arg(long, value_name = "KIND", default_value = "write", value_parser = ["read", "write"])]
    op: String,
    /// The most requests that arrive at once
    #[arg(long, value_name = "REQUESTS", default_value_t = 1)]
    burst: u32,
    /// Assume that all that tenant's requests may hit one target, because it has few objects
    #[arg(long, requires = "newcomer")]
    few_objects: bool,
    /// Carry out the moves on Ceph, watch them, and take them back if a promise is missed more often
    #[arg(long)]
    apply: bool,
    /// Move a tenant back to where it was before `--apply`
    #[arg(long, value_name = "TENANT", conflicts_with_all = ["apply", "newcomer"])]
    undo: Option<TenantName>,
    /// Seconds to wait until Ceph has moved the data; then `--apply` takes the moves back
    #[arg(long, value_name = "SECONDS", default_value_t = DATA_SECONDS, value_parser = seconds)]
    wait: f64,
    /// Seconds to watch for missed promises, before the moves and after them
    #[arg(long, value_name = "SECONDS", default_value_t = WATCH_SECONDS, value_parser = seconds)]
    watch: f64,
    /// The Ceph user who may move pools, as `/path/ceph.conf[?user=NAME]` (default: that of the
    /// cluster)
    #[arg(long, value_name = "CONF", value_parser = conf)]
    ceph: Option<RadosOptions>,
}

/// What is advised, and what becomes of it.
#[derive(Debug, Serialize)]
struct Advised {
    #[serde(flatten)]
    advice: Advice,
    /// On Ceph, commands after which the tenants that should be moved can be moved.
    commands: Vec<String>,
    /// Why nacre does not do it itself, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
    /// Tenants that were moved before, with their targets.
    moved: BTreeMap<String, String>,
    /// Whether the moves were carried out.
    is_applied: bool,
}

/// Prints the proposed moves, and carries them out if asked to.
///
/// # Errors
/// `Exhausted` if no moves help; with `--apply` `Unsupported` if nacre cannot move a tenant, and the
/// reason why moves were taken back.
pub(super) async fn run(arguments: &AdviseArguments, file: &ClusterFile, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let targets = SloTargets::new(file, &cluster)?;
    if let Some(tenant) = &arguments.undo {
        return undo(tenant, arguments, file, &cluster, &targets, out).await;
    }
    let state = cluster.slos().state().await?;
    let slowdowns = slowdowns(&targets).await?;
    let ask = arguments.ask();
    let advise =
        |may_move: &dyn Fn(&TenantName) -> bool| advise(&state, ask.as_ref(), &slowdowns, may_move);
    let moved = state.placements.iter();
    let moved = moved.map(|(tenant, placement)| (tenant.to_string(), placement.target.clone()));
    let mut advised = Advised {
        advice: advise(&|_| true)?,
        commands: vec![],
        unsupported: None,
        moved: moved.collect(),
        is_applied: false,
    };
    let pools = CephPools::of(file)?;
    let placed = match &pools {
        Some(pools) => pools.placed().await?,
        None => BTreeMap::new(),
    };
    let movable = Movable::new(&state, placed);
    if pools.is_none() {
        advised.unsupported = (!advised.advice.moves.is_empty()).then(|| NOT_EMBEDDED.to_owned());
    } else {
        let possible = advise(&|tenant| movable.rados_pools_of(tenant).is_ok())?;
        if possible.is_solved {
            advised.advice = possible;
        }
        explain(&mut advised, &movable)?;
    }
    let is_work = !advised.advice.moves.is_empty() && advised.unsupported.is_none();
    if arguments.apply && is_work {
        let mover = arguments.mover(file, &cluster, &targets).await?;
        let moves = mover.plan(&advised.advice.moves, &movable, &state).await?;
        mover.apply(&moves).await?;
        advised.is_applied = true;
    }
    out.show(&advised, || text(&advised, &state, pools.is_some()))?;
    match (&advised.unsupported, advised.advice.is_solved) {
        (_, false) => {
            Err(Error::exhausted("no moves were found after which all promises can be kept")
                .hint("add a target, promise less, or end a promise"))
        }
        (Some(reason), true) if arguments.apply => Err(Error::unsupported(reason.clone())),
        _ => Ok(()),
    }
}

/// Says which of the advised moves nacre cannot carry out, and what to do about it.
fn explain(advised: &mut Advised, movable: &Movable<'_>) -> Result<()> {
    let mut reasons = vec![];
    for advised_move in &advised.advice.moves {
        let tenant: TenantName = advised_move.tenant.parse()?;
        if let Err(error) = movable.rados_pools_of(&tenant) {
            reasons.push(format!("{tenant} cannot be moved: {}", error.message()));
            advised.commands.extend(movable.commands_for(tenant.as_str()));
        }
    }
    advised.unsupported = (!reasons.is_empty()).then(|| reasons.join("; "));
    Ok(())
}

/// Moves a tenant back.
async fn undo(
    tenant: &TenantName,
    arguments: &AdviseArguments,
    file: &ClusterFile,
    cluster: &Cluster,
    targets: &SloTargets,
    out: Out,
) -> Result<()> {
    let mover = arguments.mover(file, cluster, targets).await?;
    let record = mover.undo(tenant).await?;
    let pools: Vec<_> = record.pools.iter().map(|pool| pool.rados_pool.as_str()).collect();
    let value = json!({ "tenant": tenant.as_str(), "from": record.target, "rados_pools": pools });
    out.show(&value, || {
        format!("CRUSH alone places the pools of {tenant} again (RADOS pool {})", pools.join(", "))
    })
}

impl AdviseArguments {
    async fn mover<'a>(
        &self,
        file: &ClusterFile,
        cluster: &'a Cluster,
        targets: &'a SloTargets,
    ) -> Result<Mover<'a>> {
        let Some(engine) = file.engine() else { return Err(Error::unsupported(NOT_EMBEDDED)) };
        let options = match &self.ceph {
            Some(options) => options.clone(),
            None => engine.parse()?,
        };
        Ok(Mover {
            cluster,
            targets,
            administrator: Administrator::connect(options).await?,
            patience: Patience {
                data: Duration::from_secs_f64(self.wait),
                watch: Duration::from_secs_f64(self.watch),
            },
            clock: SystemClock::default(),
            interrupts: Interrupts::hear()?,
            told: Cell::default(),
        })
    }

    fn ask(&self) -> Option<Ask<'static>> {
        let (tenant, latency) = (self.newcomer.clone()?, self.latency?);
        let kind = if self.op == "read" { IoKind::Read } else { IoKind::Write };
        let spread = if self.few_objects { Spread::Anywhere } else { Spread::Even };
        let (per_second, bytes) = (self.rate?, self.size?);
        Some(Ask {
            tenant,
            slo_seconds: latency.as_secs_f64(),
            violation: self.violation,
            percentile: 99.0,
            traffic: Traffic::Rate(Rate { kind, bytes, per_second, burst: self.burst }, spread),
            client_link: None,
            replaces: true,
        })
    }
}

/// For each target, how many times longer a request takes than in the profile: by the time that
/// nodes measure, or because of clients that pass no gateway.
async fn slowdowns(targets: &SloTargets) -> Result<BTreeMap<TargetName, f64>> {
    let mut slowdowns = BTreeMap::new();
    for target in targets.reports().await?.into_iter().flat_map(|(_, targets)| targets) {
        let beside = target.direct.map(|direct| direct.slowdown());
        for slowdown in target.drift.into_iter().chain(beside) {
            let worst = slowdowns.entry(TargetName::new(&target.target)?).or_insert(1.0_f64);
            *worst = worst.max(slowdown);
        }
    }
    Ok(slowdowns)
}
