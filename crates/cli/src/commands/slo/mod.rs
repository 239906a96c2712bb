//! `nacre slo …`: tail latencies that tenants are promised.

mod admit;
mod advise;
mod bound;
mod curve;
mod input;
mod link;
mod place;
mod profile;
mod replay;
mod status;
mod units;
mod watch;

use clap::{Subcommand, ValueEnum};
use nacre::{Cluster, ClusterFile};
use nacre_object::{PoolName, ProgramName, Result, TenantName};
use nacre_slo::SloState;

use self::admit::Effect;
use super::route::check_slo_change;
use crate::listing::Limit;
use crate::out::Out;

pub(crate) use self::profile::measure;
pub(crate) use self::units::size;

/// The word of `nacre slo order` for the built-in order.
const NATIVE_ORDER: &str = "native";

/// Promise tenants a latency for nearly all of their requests, and see whether it is kept
/// (docs/slo.md)
#[derive(Debug, Subcommand)]
pub enum SloCommand {
    /// Measure the cost of requests on each target; `admit`, `whatif`, `advise` and `watch` need it
    Profile(profile::ProfileArguments),
    /// Promise a tenant a latency, if the cluster can then still keep all promises
    Admit(admit::AdmitArguments),
    /// Show what `admit` would do, without doing it
    #[command(name = "whatif")]
    WhatIf(admit::AdmitArguments),
    /// Propose which tenants to move to which targets, so that all promises can be kept
    Advise(advise::AdviseArguments),
    /// Watch a tenant's requests, and propose a latency that it could be promised
    Watch(watch::WatchArguments),
    /// Send the requests of recorded traces at their recorded times, and measure the latencies
    Replay(replay::ReplayArguments),
    /// End a promise
    Evict { tenant: TenantName },
    /// List the promises
    #[command(alias = "list")]
    Ls(Limit),
    /// Show the measured latencies of tenants beside their promises
    Status,
    /// Switch between keeping promises and only measuring latencies
    Enforce {
        /// on: order requests by promises; off: serve requests in the order of arrival
        #[arg(value_name = "STATE")]
        switch: Switch,
    },
    /// Choose the program that decides which tenant's request is served next
    Order {
        /// The NAME of an active program slo/NAME; or `native`, the built-in order, for which
        /// promises are computed
        program: ProgramName,
    },
    /// Count all requests on a pool's objects as those of one tenant, whoever sends them
    Pool {
        pool: PoolName,
        /// The tenant; without it, requests count for the tenants of their senders again
        tenant: Option<TenantName>,
    },
    /// Set the share of a tenant without a promise in the time that promises leave
    Weight {
        tenant: TenantName,
        /// The share, compared with other tenants of share 1; without it, the tenant has share 1
        /// again
        weight: Option<f64>,
    },
    /// State the speed of a node's network link, so that tenants share it as they were promised
    Link(link::LinkArguments),
    /// Show, for each length of time, the most work that a recorded trace causes on each target
    Curve(curve::CurveArguments),
    /// Show the longest latency of tenants that share targets, computed from their token buckets
    Bound(bound::BoundArguments),
    /// Choose a target for each tenant of a file, so that each tenant gets the latency that the
    /// file asks for
    Place(place::PlaceArguments),
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Keep the promises
    On,
    /// Serve requests in the order of arrival
    Off,
}

impl SloCommand {
    /// Whether it asks a running cluster.
    pub fn asks_a_cluster(&self) -> bool {
        !matches!(self, Self::Curve(_) | Self::Bound(_) | Self::Place(_))
    }
}

/// Runs one of them.
pub async fn run(
    command: SloCommand,
    file: impl FnOnce() -> Result<ClusterFile>,
    out: Out,
) -> Result<()> {
    use SloCommand as C;
    match command {
        C::Curve(arguments) => curve::curve(&arguments, out),
        C::Bound(arguments) => bound::bound(&arguments, out),
        C::Place(arguments) => place::place(&arguments, out),
        C::Profile(arguments) => profile::profile(&arguments, &file()?, out).await,
        C::Admit(arguments) => admit::admit(&arguments, Effect::Admit, &file()?, out).await,
        C::WhatIf(arguments) => admit::admit(&arguments, Effect::WhatIf, &file()?, out).await,
        C::Advise(arguments) => advise::run(&arguments, &file()?, out).await,
        C::Replay(arguments) => replay::replay(&arguments, &Cluster::reach(&file()?)?, out).await,
        C::Watch(arguments) => watch::watch(&arguments, &file()?, out).await,
        C::Status => status::status(&file()?, out).await,
        C::Ls(limit) => status::ls(&Cluster::reach(&file()?)?, limit, out).await,
        C::Evict { tenant } => Cluster::reach(&file()?)?.slos().evict(&tenant).await,
        C::Enforce { switch } => {
            Cluster::reach(&file()?)?.slos().enforce(switch == Switch::On).await
        }
        C::Order { program } => {
            let program = (program.as_str() != NATIVE_ORDER).then_some(program);
            Cluster::reach(&file()?)?.set_slo_order(program).await
        }
        C::Pool { pool, tenant } => {
            let file = file()?;
            let cluster = Cluster::reach(&file)?;
            cluster.pool(pool.as_str()).await?;
            let assigned = |slo: &mut SloState| match &tenant {
                Some(tenant) => drop(slo.pools.insert(pool.clone(), tenant.clone())),
                None => drop(slo.pools.remove(&pool)),
            };
            check_slo_change(&file, &cluster, None, assigned).await?;
            cluster.slos().set_pool(&pool, tenant.as_ref()).await
        }
        C::Link(arguments) => link::link(&arguments, &file()?).await,
        C::Weight { tenant, weight } => {
            Cluster::reach(&file()?)?.slos().set_weight(&tenant, weight).await
        }
    }
}

/// Seconds, shown in milliseconds.
fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

/// A latency bound.
fn latency(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "no bound".to_owned(), milliseconds)
}

/// The name of a latency bound. `violation` is the share of requests that may exceed the bound.
/// Without it no request may: the bound is *deterministic*.
fn bound_name(violation: Option<f64>) -> String {
    violation.map_or_else(|| "deterministic".to_owned(), |part| format!("violation {part}"))
}
