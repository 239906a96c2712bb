//! `nacre route ls` and `show`: which rules there are.

use std::fmt::Write;

use nacre_node::{RouteMap, RouteState};
use nacre_object::{ApplicationName, Error, Result};
use nacre_route::StoredApplication;
use serde_json::json;

use crate::listing::{Limit, Listing};
use crate::out::{Out, printable};

fn ordered(state: &RouteState) -> Vec<(&ApplicationName, &StoredApplication)> {
    let mut all: Vec<_> = state.applications.iter().collect();
    all.sort_by_key(|(name, application)| (application.order, (*name).clone()));
    all
}

/// Lists the rules.
pub(super) async fn ls(map: &RouteMap, limit: Limit, out: Out) -> Result<()> {
    const HEADER: [&str; 3] = ["application", "switch", "rule"];
    let state = map.state().await?;
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
