//! `nacre events`: the cluster log.

use nacre::{Cluster, Event, EventItem};
use nacre_object::Result;
use serde_json::json;

use crate::out::{Out, note, printable, utc};
use crate::reader::while_read;

/// What `nacre events` can be told
#[derive(Debug, clap::Args)]
pub struct EventsArguments {
    /// The last so many
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on with every event as it happens, until interrupted
    #[arg(long, short)]
    follow: bool,
}

/// Prints events, oldest first.
pub async fn run(arguments: EventsArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let events = cluster.events();
    let last = events.last().await?;
    let mut after = last.saturating_sub(arguments.limit as u64);
    while after < last {
        let page = events.after(after, (last - after) as usize).await?;
        let Some(newest) = page.last() else { break };
        after = newest.sequence;
        // Where older ones are no longer kept, a page goes on past the last.
        for event in page.iter().take_while(|event| event.sequence <= last) {
            show(event, out)?;
        }
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
            EventItem::Missed { .. } => note("some events are no longer kept"),
        }
    }
}

fn show(event: &Event, out: Out) -> Result<()> {
    let program = event.program.as_ref();
    let value = json!({
        "sequence": event.sequence,
        "at_micros": event.at_micros,
        "severity": event.severity.as_str(),
        "node": event.node.as_ref().map(|node| node.as_str()),
        "program": program.map(|site| json!({ "program": format!("{}/{}", site.kind, site.name),
            "version": site.version, "line": site.line })),
        "text": event.text,
        "fields": event.fields,
    });
    out.show(&value, || {
        let mut parts = vec![utc(event.at_micros), event.severity.as_str().to_owned()];
        parts.extend(event.node.as_ref().map(ToString::to_string));
        // A traceback has lines; none of them looks like an event's.
        let lines: Vec<_> = event.text.lines().map(printable).collect();
        parts.push(lines.join("\n    "));
        if let Some(line) = program.and_then(|site| site.line) {
            parts.push(format!("line {line}"));
        }
        let field = |(key, value): (&String, &String)| printable(&format!("{key}={value}"));
        parts.extend(event.fields.iter().map(field));
        parts.join("  ")
    })
}
