//! `nacre balancer set`, `off` and `status`: which policy is in charge.

use std::time::Duration;

use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_balance::{BalancerSettings, History, MAX_TICK, MIN_TICK};
use nacre_object::{Error, ProgramName, Result};
use serde_json::json;

use super::history::{HEADER, row};
use super::ranks;
use crate::out::{Out, table};

/// Puts a policy in charge.
pub(super) async fn set(cluster: &Cluster, policy: ProgramName, tick: f64) -> Result<()> {
    let tick = Duration::try_from_secs_f64(tick)
        .map_err(|_| Error::invalid(format!("a tick of {tick} s is not possible")))
        .and_then(|tick| match (MIN_TICK..=MAX_TICK).contains(&tick) {
            true => Ok(tick),
            false => Err(Error::invalid(format!("a tick of {tick:?} is not possible"))),
        })
        .map_err(|error| {
            error.hint(format!("give --tick a value from {MIN_TICK:?} to {MAX_TICK:?}"))
        })?;
    let program = ProgramId::new(ProgramKind::Balancer, policy.clone());
    if cluster.programs().active(&program).await?.is_none() {
        let hint = format!("put and activate one: nacre program put {program} FILE --activate");
        return Err(Error::not_found(format!("{program} has no active version")).hint(hint));
    }
    BalancerSettings { policy: Some(policy), tick }.store(cluster.maps()).await
}

/// Puts no policy in charge.
pub(super) async fn off(cluster: &Cluster) -> Result<()> {
    let tick = BalancerSettings::read(cluster.maps()).await?.tick;
    BalancerSettings { policy: None, tick }.store(cluster.maps()).await
}

/// Shows the policy, and what each node decided last.
pub(super) async fn status(cluster: &Cluster, out: Out) -> Result<()> {
    let settings = BalancerSettings::read(cluster.maps()).await?;
    let mut last = vec![];
    for node in ranks(cluster).await? {
        let record = History::of(cluster.store().clone(), &node)?.last(1).await?.pop();
        last.push((node, record));
    }
    let policy = settings.policy.as_ref().map(ProgramName::as_str);
    let value = json!({
        "policy": policy,
        "tick_seconds": settings.tick.as_secs_f64(),
        "nodes": last.iter().map(|(node, record)| json!({ "node": node.as_str(), "last": record }))
            .collect::<Vec<_>>(),
    });
    out.show(&value, || {
        let says = match policy {
            Some(policy) => format!("policy {policy}, a tick every {:?}", settings.tick),
            None => "off: every unit stays where it is".to_owned(),
        };
        let rows = last.iter().map(|(node, record)| match record {
            Some(record) => row(node, record),
            None => {
                vec![node.to_string(), "-".into(), "-".into(), "-".into(), "never decided".into()]
            }
        });
        format!("{says}\n{}", table(&HEADER, &rows.collect::<Vec<_>>()))
    })
}
