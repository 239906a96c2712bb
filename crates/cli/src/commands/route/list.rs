//! `nacre route ls`, `show` and `history`: which rules there are, and were.

use std::fmt::Write;

use nacre::Maps;
use nacre_node::{RouteMap, RouteState};
use nacre_object::{ApplicationName, Error, Result};
use nacre_route::StoredApplication;
use serde_json::json;

use crate::listing::{Limit, Listing, line};
use crate::out::{Out, note, printable, utc};

fn ordered(state: &RouteState) -> Vec<(&ApplicationName, &StoredApplication)> {
    let mut all: Vec<_> = state.applications.iter().collect();
    all.sort_by_key(|(name, application)| (application.order, (*name).clone()));
    all
}

/// Lists the rules.
pub(super) async fn ls(map: &RouteMap, limit: Limit, out: Out) -> Result<()> {
    const HEADER: [&str; 3] = ["application", "switch", "rule"];
    let state = map.state().await?;
    if let Some(tail) = &state.tail {
        note(&format!(
            "the writes of {} go elsewhere while the rate of {} s is above {} times that of {} s",
            tail.pools.join(", "),
            tail.recent_seconds,
            tail.alpha,
            tail.average_seconds
        ));
    }
    let rules = ordered(&state).into_iter().flat_map(|(name, application)| {
        application.insertions.iter().flat_map(move |insertion| {
            insertion.rules.iter().map(move |rule| (name, &insertion.switch, rule))
        })
    });
    Listing::table(out, limit, &HEADER).all(
        rules.collect::<Vec<_>>(),
        |(name, switch, rule)| json!({ "application": name.as_str(), "switch": switch, "rule": rule }),
        |(name, switch, rule)| vec![vec![name.to_string(), printable(switch), printable(rule)]],
    )
}

/// Prints one application, as a file that `put` takes.
pub(super) async fn show(map: &RouteMap, name: &ApplicationName, out: Out) -> Result<()> {
    let state = map.state().await?;
    let application = state.applications.get(name).ok_or_else(|| {
        Error::not_found("there is no such application")
            .on(name)
            .hint("list the applications with `nacre route ls`")
    })?;
    out.show(application, || {
        let mut text = "nacre routes 1".to_owned();
        for insertion in &application.insertions {
            let _ = write!(text, "\napplication {name} on {}", insertion.switch);
            for rule in &insertion.rules {
                let _ = write!(text, "\n  {rule}");
            }
        }
        text
    })
}

/// Prints how the rules changed.
pub(super) async fn history(maps: &Maps, limit: usize, out: Out) -> Result<()> {
    let name = nacre_registry::ROUTES_MAP.parse()?;
    let epoch = maps.epoch(&name).await?;
    let mut after = epoch.saturating_sub(limit as u64);
    let mut listing = Listing::lines(out, Limit::default());
    while after < epoch {
        let page = maps.history(&name, after, limit).await?;
        let Some(last) = page.records.last().map(|record| record.epoch) else { break };
        for record in page.records {
            let changes: Vec<_> = record
                .changes
                .iter()
                .map(|change| match change.value() {
                    Some(value) => format!("{} = {}", change.key(), String::from_utf8_lossy(value)),
                    None => format!("{} ends", change.key()),
                })
                .collect();
            let at = utc(record.at_micros);
            let json = json!({ "epoch": record.epoch, "at": at, "changes": changes });
            listing.push(json, || {
                line(printable(&format!("{at} epoch {}: {}", record.epoch, changes.join("; "))))
            })?;
        }
        after = last;
    }
    listing.finish(None)
}
