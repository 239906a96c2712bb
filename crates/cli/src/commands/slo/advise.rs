//! `nacre slo advise`: proposes which tenants to move to which targets, so that the cluster can
//! keep all promises.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_node::SloTargets;
use nacre_object::{Error, Result, TargetName, TenantName};
use nacre_qos::IoKind;
use nacre_slo::{Advice, Ask, Rate, SloState, Spread, Traffic, advise};
use serde::Serialize;

use super::{latency, milliseconds, units};
use crate::out::{Out, table};

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
    /// Carry out the moves. Fails if a tenant must be moved, because nacre cannot move objects
    #[arg(long)]
    apply: bool,
}

/// What is advised, and how it is done.
#[derive(Debug, Serialize)]
struct Advised {
    #[serde(flatten)]
    advice: Advice,
    /// Commands that do it on Ceph; none where nacre keeps the objects.
    commands: Vec<String>,
    /// Why nacre does not do it itself, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
}

/// Prints the proposed moves.
///
/// # Errors
/// `Exhausted` if no moves help; `Unsupported` with `--apply` if nacre cannot move objects.
pub(super) async fn run(arguments: &AdviseArguments, file: &ClusterFile, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let state = cluster.slos().state().await?;
    let slowdowns = slowdowns(&SloTargets::new(file, &cluster)?).await?;
    let advice = advise(&state, arguments.ask().as_ref(), &slowdowns)?;
    let is_ceph = file.engine().is_some();
    let commands = if is_ceph { ceph_commands(&advice) } else { vec![] };
    let unsupported = (!advice.moves.is_empty()).then(|| why_not(is_ceph).to_owned());
    let advised = Advised { advice, commands, unsupported };
    out.show(&advised, || text(&advised, &state))?;
    match (&advised.unsupported, advised.advice.is_solved) {
        (_, false) => {
            Err(Error::exhausted("no moves were found after which all promises can be kept")
                .hint("add a target, promise less, or end a promise"))
        }
        (Some(reason), true) if arguments.apply => Err(Error::unsupported(reason.clone())),
        _ => Ok(()),
    }
}

impl AdviseArguments {
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

/// For each target, the ratio of the measured time of a request to the time in the profile, as the
/// nodes report it.
async fn slowdowns(targets: &SloTargets) -> Result<BTreeMap<TargetName, f64>> {
    let mut slowdowns = BTreeMap::new();
    for target in targets.reports().await?.into_iter().flat_map(|(_, targets)| targets) {
        if let Some(drift) = target.drift {
            let worst = slowdowns.entry(TargetName::new(target.target)?).or_insert(1.0_f64);
            *worst = worst.max(drift);
        }
    }
    Ok(slowdowns)
}

/// Why nacre does not move objects.
fn why_not(is_ceph: bool) -> &'static str {
    match is_ceph {
        true => {
            "nacre changes no CRUSH rules and no pools of Ceph: an administrator of the Ceph cluster runs the commands"
        }
        false => {
            "nacre cannot move a tenant to chosen targets: an object's name and the weights of all targets decide where it is"
        }
    }
}

/// The `ceph` commands that put the pool of each moved tenant on its new OSD.
fn ceph_commands(advice: &Advice) -> Vec<String> {
    let of_move = |done: &nacre_slo::Move| {
        let (osd, name) = (&done.to, format!("nacre-{}", done.tenant));
        [
            format!("ceph osd crush rm-device-class {osd}"),
            format!("ceph osd crush set-device-class {name} {osd}"),
            format!("ceph osd crush rule create-replicated {name} default osd {name}"),
            format!("ceph osd pool create {name} 32 32 replicated {name}"),
        ]
    };
    advice.moves.iter().flat_map(of_move).collect()
}

fn text(advised: &Advised, state: &SloState) -> String {
    let Advised { advice, commands, unsupported } = advised;
    let mut lines = vec![];
    match (advice.left_out.is_empty(), advice.is_solved) {
        (true, _) => lines.push("everybody has what was promised; nothing is to be moved".to_owned()),
        (false, true) => lines.push(format!(
            "as things are {} cannot have what was promised; with these moves everybody can:",
            advice.left_out.join(" and ")
        )),
        (false, false) => lines.push(format!(
            "as things are {} cannot have what was promised, and no move of a tenant to one target helps",
            advice.left_out.join(" and ")
        )),
    }
    for done in &advice.moves {
        let pools = state.pools.iter().filter(|(_, tenant)| tenant.as_str() == done.tenant);
        let pools: Vec<_> = pools.map(|(pool, _)| pool.to_string()).collect();
        let pools = match pools.is_empty() {
            true => String::new(),
            false => format!(", its pools {}", pools.join(", ")),
        };
        let (tenant, from, to) = (&done.tenant, done.from.join(", "), &done.to);
        lines.push(format!("  move {tenant}{pools} from {from} to {to}"));
    }
    let row = |tenant: &nacre_slo::AdvisedTenant| {
        vec![
            tenant.tenant.clone(),
            milliseconds(tenant.slo_seconds),
            latency(tenant.bound_seconds),
            latency(tenant.bound_seconds_after),
        ]
    };
    let rows: Vec<_> = advice.tenants.iter().map(row).collect();
    lines.push(table(&["tenant", "promised", "longest possible", "after the moves"], &rows));
    let row = |target: &nacre_slo::AdvisedTarget| {
        let percent = |load: f64| format!("{:.1}%", load * 100.0);
        vec![
            target.target.clone(),
            percent(target.load),
            percent(target.load_after),
            format!("{:.2}", target.slowdown),
        ]
    };
    let rows: Vec<_> = advice.targets.iter().map(row).collect();
    lines.push(table(
        &["target", "promised load", "after the moves", "slower than its profile"],
        &rows,
    ));
    if !commands.is_empty() {
        lines.push("on Ceph these give each tenant a pool of RADOS on its OSD:".to_owned());
        lines.extend(commands.iter().map(|command| format!("  {command}")));
        lines.push(
            "then serve the tenant by gateways to that pool (--engine ceph:CONF?pool=NAME), and copy its objects"
                .to_owned(),
        );
    }
    if let Some(reason) = unsupported {
        lines.push(format!("unsupported: {reason}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advised_commands_move_a_tenant_to_a_pool_on_its_new_osd() {
        let done = nacre_slo::Move {
            tenant: "gold".to_owned(),
            from: vec!["osd.0".to_owned(), "osd.1".to_owned()],
            to: "osd.2".to_owned(),
        };
        let (left_out, tenants, targets) = (vec!["gold".to_owned()], vec![], vec![]);
        let advice = Advice { left_out, moves: vec![done], is_solved: true, tenants, targets };
        let commands = ceph_commands(&advice);
        assert_eq!(commands[1], "ceph osd crush set-device-class nacre-gold osd.2");
        assert_eq!(commands[3], "ceph osd pool create nacre-gold 32 32 replicated nacre-gold");
    }
}
