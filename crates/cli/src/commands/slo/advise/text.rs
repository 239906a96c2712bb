//! Advice in words.

use nacre_slo::SloState;

use super::Advised;
use crate::commands::slo::{latency, milliseconds};
use crate::out::table;

pub(super) fn text(advised: &Advised, state: &SloState, is_ceph: bool) -> String {
    let Advised { advice, commands, unsupported, moved, is_applied } = advised;
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
    for (tenant, target) in moved {
        lines.push(format!(
            "{tenant} was moved to {target} before; `nacre slo advise --undo {tenant}` takes that back"
        ));
    }
    if let Some(reason) = unsupported {
        lines.push(format!("unsupported: {reason}"));
    }
    if !commands.is_empty() {
        lines.push(
            "a tenant can be moved if its objects are in a pool that these commands make:"
                .to_owned(),
        );
        lines.extend(commands.iter().map(|command| format!("  {command}")));
    }
    match (advice.moves.is_empty(), is_applied) {
        (false, true) => lines.push("the moves are done".to_owned()),
        (false, false) if is_ceph && unsupported.is_none() => {
            lines.push(
                "`nacre slo advise --apply` moves the data, and takes that back if it fails"
                    .to_owned(),
            );
        }
        _ => {}
    }
    lines.join("\n")
}
