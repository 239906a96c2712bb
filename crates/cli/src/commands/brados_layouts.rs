//! `nacre brados adopt`: a running class is brought into another layout.

use std::time::Duration;

use nacre::Cluster;
use nacre_node::{ClassLayout, LayoutChange, Layouts, Phase};
use nacre_object::{ClassName, Error, Result};

use crate::out::{Out, note, printable};

/// Between two looks at how far a change is.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The arguments of `nacre brados adopt`
#[derive(Debug, clap::Args)]
pub struct AdoptArguments {
    /// The class; the new layout applies to its active version
    class: ClassName,
    /// The new layout, such as `log: slots(4096), header: attribute`; `nacre brados tune` finds the
    /// best one
    #[arg(long)]
    layout: String,
    /// Return when the change has begun; the cluster then finishes it in the background
    #[arg(long)]
    no_wait: bool,
}

/// What is being done to the layout of a class, if anything is.
pub fn told(layout: &ClassLayout) -> Option<String> {
    layout.change.as_ref().map(progress)
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
/// Those of [`Layouts::adopt`].
pub async fn adopt(arguments: AdoptArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let AdoptArguments { class, layout, no_wait } = arguments;
    let layouts = Layouts::of(cluster);
    let begun = layouts.adopt(&class, &layout).await?;
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
