//! `nacre brados proposals`, `adopt` and `auto`: the layouts of running classes.

use std::time::Duration;

use nacre::{ClassLayout, Cluster, LayoutChange, Phase};
use nacre_object::{ClassName, Error, Result};
use nacre_tuner::rechoose::Terms;
use serde_json::json;

use crate::out::{Out, note, printable, table};

/// Between two looks at how far a change is.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What `nacre brados adopt` can be told
#[derive(Debug, clap::Args)]
pub struct AdoptArguments {
    /// The class, as it is active
    class: ClassName,
    /// The layout, `log: slots(4096), header: attribute`; without it the one that is proposed
    #[arg(long)]
    layout: Option<String>,
    /// Return once it has begun; the cluster goes on with it
    #[arg(long)]
    no_wait: bool,
}

/// What `nacre brados auto` can be told
#[derive(Debug, clap::Args)]
pub struct AutoArguments {
    class: ClassName,
    /// Whether its layout is changed without asking
    #[arg(value_parser = ["on", "off"])]
    auto: String,
    /// Judge what is asked of it by no fewer requests …
    #[arg(long, value_name = "REQUESTS")]
    requests: Option<u64>,
    /// … and no fewer seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Change nothing for so many seconds after a change
    #[arg(long, value_name = "SECONDS")]
    rest: Option<u64>,
}

/// Shows what is proposed, what is being changed and what may be.
///
/// # Errors
/// `Unavailable`; `Denied`.
pub async fn proposals(cluster: &Cluster, out: Out) -> Result<()> {
    let classes = cluster.layouts().all().await?;
    if out.is_json() {
        return classes.iter().try_for_each(|(class, layout)| {
            out.show(&json!({ "class": class.as_str(), "layout": layout }), String::new)
        });
    }
    if classes.is_empty() && cluster.layouts().profile().await?.is_none() {
        return out
            .line("no layouts are judged: measure the engine with `nacre brados profile --keep`");
    }
    let row = |(class, layout): &(ClassName, ClassLayout)| {
        let auto = if layout.auto { "on" } else { "off" };
        vec![class.to_string(), auto.to_owned(), told(layout).unwrap_or("-".to_owned())]
    };
    let rows: Vec<_> = classes.iter().map(row).collect();
    out.line(&table(&["CLASS", "AUTO", "LAYOUT"], &rows))
}

/// What is proposed for a class, or being done to it, if anything is.
pub fn told(layout: &ClassLayout) -> Option<String> {
    match (&layout.change, &layout.standing.proposal) {
        (Some(change), _) => Some(progress(change)),
        (None, Some(proposal)) => Some(format!("proposed: {proposal}")),
        (None, None) => None,
    }
}

fn progress(change: &LayoutChange) -> String {
    let destination = change.destination();
    match &change.phase {
        Phase::Bridge | Phase::Target => format!("on its way into {destination}"),
        Phase::Walk(walk) => {
            let place = match (&walk.pool, &walk.after) {
                (Some(pool), Some(after)) => printable(&format!(", at {pool}/{after}")),
                _ => String::new(),
            };
            let (moved, rows) = (walk.moved, walk.rows);
            format!("on its way into {destination}: {moved} objects moved, {rows} rows{place}")
        }
    }
}

/// Brings a class into another layout.
///
/// # Errors
/// `NotFound` if the class is not active, or nothing is proposed and no layout named; those of
/// [`nacre::Layouts::adopt`].
pub async fn adopt(arguments: AdoptArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let AdoptArguments { class, layout, no_wait } = arguments;
    let layouts = cluster.layouts();
    layouts.check(&class).await?;
    let (layout, why) = match layout {
        Some(layout) => (layout, "asked for".to_owned()),
        None => {
            let proposal = layouts.get(&class).await?.standing.proposal.ok_or_else(|| {
                Error::not_found(format!("no layout is proposed for {class}"))
                    .hint("name one with --layout")
            })?;
            (proposal.estimate.best.layout.clone(), proposal.to_string())
        }
    };
    let begun = layouts.adopt(&class, &layout, &why).await?;
    if no_wait {
        return out.show(&begun, || format!("{class} is on its way into {}", begun.layout));
    }
    let mut last = String::new();
    while let Some(change) = layouts.get(&class).await?.change {
        let now = progress(&change);
        if now != last {
            note(&now);
            last = now;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let settled = layouts.get(&class).await?.settled;
    if settled == Some(begun.target) {
        return out.show(&begun, || format!("{class} is in layout {}", begun.layout));
    }
    Err(Error::new(
        nacre_object::ErrorKind::Conflict,
        format!("{class} was not brought into {}", begun.layout),
    )
    .hint("another version was activated meanwhile; see `nacre events`"))
}

/// Says whether a class may be brought into another layout without asking.
///
/// # Errors
/// Those of [`nacre::Layouts::allow`].
pub async fn auto(arguments: AutoArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let AutoArguments { class, auto, requests, seconds, rest } = arguments;
    let known = cluster.layouts().get(&class).await?.terms;
    let terms = Terms {
        requests: requests.unwrap_or(known.requests),
        seconds: seconds.unwrap_or(known.seconds),
        rest_seconds: rest.unwrap_or(known.rest_seconds),
        ..known
    };
    cluster.layouts().allow(&class, auto == "on", Some(terms)).await?;
    out.show(&json!({ "class": class.as_str(), "auto": auto == "on", "terms": terms }), || {
        match auto.as_str() {
            "on" => format!("the layout of {class} is changed when another is better"),
            _ => format!("another layout is proposed for {class} when it is better"),
        }
    })
}
