//! `nacre events`: the cluster log.

use nacre::{Cluster, Event, EventItem, Events};
use nacre_object::Result;
use serde_json::json;

use crate::listing::{Limit, Listing, RAISE_LIMIT, line};
use crate::out::{Out, note, printable, utc};
use crate::reader::while_read;

const SOME_ARE_GONE: &str = "some events are no longer kept";

/// The arguments of `nacre events`
#[derive(Debug, clap::Args)]
pub struct EventsArguments {
    /// List the last N events
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Then print each new event as it happens, until interrupted
    #[arg(long, short)]
    follow: bool,
}

/// Prints events, oldest first.
pub async fn run(arguments: EventsArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let events = cluster.events();
    let last = events.last().await?;
    // `--limit 0` with `--follow` prints no earlier events.
    if !(arguments.follow && arguments.limit == 0) {
        list(events, last, arguments.limit, out).await?;
    }
    match arguments.follow {
        true => while_read(follow(cluster, last, out)).await,
        false => Ok(()),
    }
}

/// Prints events after this one as they happen; returns only if that fails.
async fn follow(cluster: &Cluster, after: u64, out: Out) -> Result<()> {
    let mut watcher = cluster.events().follow(after);
    loop {
        match watcher.next().await? {
            EventItem::Event(event) => show(&event, out)?,
            EventItem::Missed { .. } => note(SOME_ARE_GONE),
        }
    }
}

/// Prints the last events up to number `last`, at most `limit`.
async fn list(events: &Events, last: u64, limit: usize, out: Out) -> Result<()> {
    let mut listing = Listing::lines(out, Limit::default());
    let first = last.saturating_sub(limit as u64);
    let mut after = first;
    while after < last {
        let page = events.after(after, (last - after) as usize).await?;
        let Some(newest) = page.last() else { break };
        if after > first && page[0].sequence > after + 1 {
            note(SOME_ARE_GONE);
        }
        after = newest.sequence;
        // A page may continue past `last` if older events are no longer kept.
        for event in page.iter().take_while(|event| event.sequence <= last) {
            listing.push(document(event), || line(text(event)))?;
        }
    }
    let oldest = events.after(0, 1).await?;
    let has_older = oldest.first().is_some_and(|oldest| oldest.sequence <= first);
    listing.finish(has_older.then_some(RAISE_LIMIT))
}

fn show(event: &Event, out: Out) -> Result<()> {
    out.show(&document(event), || text(event))
}

fn document(event: &Event) -> serde_json::Value {
    let program = event.program.as_ref();
    json!({
        "sequence": event.sequence,
        "at_micros": event.at_micros,
        "severity": event.severity.as_str(),
        "node": event.node.as_ref().map(|node| node.as_str()),
        "program": program.map(|site| json!({ "program": format!("{}/{}", site.kind, site.name),
            "version": site.version, "line": site.line })),
        "text": event.text,
        "fields": event.fields,
    })
}

fn text(event: &Event) -> String {
    let mut parts = vec![utc(event.at_micros), event.severity.as_str().to_owned()];
    parts.extend(event.node.as_ref().map(ToString::to_string));
    // The text of an event may be a traceback. Indent its further lines, so that none looks like an
    // event.
    let lines: Vec<_> = event.text.lines().map(printable).collect();
    parts.push(lines.join("\n    "));
    if let Some(site) = &event.program {
        let line = site.line.map(|line| format!(" line {line}")).unwrap_or_default();
        parts.push(format!("{}/{}@{}{line}", site.kind, site.name, site.version));
    }
    let field = |(key, value): (&String, &String)| printable(&format!("{key}={value}"));
    parts.extend(event.fields.iter().map(field));
    parts.join("  ")
}
