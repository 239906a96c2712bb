//! `nacre slo watch`: records the requests of a tenant, and proposes a latency for them.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_node::SloTargets;
use nacre_object::{Error, ErrorKind, Result, TargetName, TenantName};
use nacre_qos::ArrivalCurve;
use nacre_slo::{Ask, Outcome, Traffic};
use serde::{Deserialize, Serialize};

use super::milliseconds;
use crate::out::{Out, note, table};

/// Nodes watch for this much longer than the command waits, so that their records still exist when
/// the command reads them.
const SPARE: Duration = Duration::from_secs(10);
/// An SLO that nobody can be promised. The refusal says which one fits.
const IMPOSSIBLE_SECONDS: f64 = 1e-6;
/// The proposed latency is this many times the shortest latency that fits now, so that other
/// tenants fit as well.
const ROOM: f64 = 1.25;

/// Who is watched, and how long
#[derive(Debug, clap::Args)]
pub struct WatchArguments {
    /// The tenant
    tenant: TenantName,
    /// Seconds to watch. Bursts that come later may break the proposed promise
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = crate::input::seconds)]
    seconds: f64,
}

/// What comes of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Watched {
    tenant: String,
    seconds: f64,
    /// The most work that came to each target, in time spans of any length.
    pub curves: BTreeMap<String, ArrivalCurve>,
    /// A latency that could be promised for it; `None` if no latency can.
    proposed_slo_seconds: Option<f64>,
}

/// Watches a tenant, and shows what it sent.
pub(super) async fn watch(arguments: &WatchArguments, file: &ClusterFile, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let targets = SloTargets::new(file, &cluster)?;
    let (tenant, time) = (&arguments.tenant, Duration::from_secs_f64(arguments.seconds));
    targets.watch(tenant, time + SPARE).await?;
    note(&format!("watching what {tenant} sends for {} s", arguments.seconds));
    tokio::time::sleep(time).await;
    let curves = curves(&targets, tenant).await?;
    if curves.is_empty() {
        return Err(Error::not_found("the tenant has sent nothing").on(tenant).hint(
            "`nacre slo status` lists the tenants that send; `nacre slo pool` says whose a pool is",
        ));
    }
    let ask = Ask {
        tenant: tenant.clone(),
        slo_seconds: IMPOSSIBLE_SECONDS,
        violation: None,
        percentile: 99.0,
        traffic: Traffic::Curves(curves.clone()),
        client_link: None,
        replaces: false,
    };
    let proposed = match cluster.slos().what_if(&ask).await {
        Ok(Outcome::Refused(refusal)) => refusal.fit.slo_seconds.map(|seconds| seconds * ROOM),
        Ok(Outcome::Admitted(promise)) => Some(promise.slo_seconds),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            note(&format!("no latency is proposed: {error}"));
            None
        }
        Err(error) => return Err(error),
    };
    let named = curves.into_iter().map(|(target, curve)| (target.to_string(), curve)).collect();
    let watched = Watched {
        tenant: tenant.to_string(),
        seconds: arguments.seconds,
        curves: named,
        proposed_slo_seconds: proposed,
    };
    out.show(&watched, || text(&watched))
}

/// What all gateways together saw, by target.
async fn curves(
    targets: &SloTargets,
    tenant: &TenantName,
) -> Result<BTreeMap<TargetName, ArrivalCurve>> {
    let mut curves: BTreeMap<TargetName, ArrivalCurve> = BTreeMap::new();
    for target in targets.reports().await?.into_iter().flat_map(|(_, targets)| targets) {
        let own = target.tenants.into_iter().find(|own| own.tenant == tenant.as_str());
        let Some(curve) = own.and_then(|own| own.curve) else { continue };
        let name = TargetName::new(&target.target)?;
        let sum = match curves.get(&name) {
            Some(other) => other.plus(&curve),
            None => curve,
        };
        curves.insert(name, sum);
    }
    Ok(curves)
}

fn text(watched: &Watched) -> String {
    let row = |(target, curve): (&String, &ArrivalCurve)| {
        let burst = curve.segments().first().map_or(0.0, |first| first.work_seconds);
        vec![target.clone(), format!("{:.2}%", curve.least_rate() * 100.0), milliseconds(burst)]
    };
    let rows: Vec<_> = watched.curves.iter().map(row).collect();
    let (tenant, seconds) = (&watched.tenant, watched.seconds);
    let proposal = match watched.proposed_slo_seconds {
        Some(slo) => format!(
            "it could be promised {}: nacre slo watch {tenant} --seconds {seconds} --json > curves.json; nacre slo admit \
             {tenant} --latency {:.3}ms --curves curves.json",
            milliseconds(slo),
            slo * 1e3
        ),
        None => "no latency can be promised for it: it asks for more than is left".to_owned(),
    };
    let header = ["target", "of the target's time", "most work at once"];
    format!("{}\n{proposal}", table(&header, &rows))
}
