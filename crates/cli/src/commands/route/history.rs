//! `nacre route history`: who put or removed rules, and when.

use std::collections::VecDeque;

use nacre::{Change, EpochRecord, Maps};
use nacre_node::StartedApplication;
use nacre_object::Result;
use nacre_registry::ROUTES_MAP;
use nacre_route::{APPLICATION_PREFIX, CONTROL_PREFIX, StoredApplication};
use serde_json::{Value, json};

use crate::listing::{Limit, Listing, RAISE_LIMIT, Row};
use crate::out::{Out, note, printable, utc};

const HEADER: [&str; 5] = ["epoch", "at", "by", "application", "change"];

/// Prints the last changes, at most `limit`, oldest first.
pub(super) async fn history(maps: &Maps, limit: usize, out: Out) -> Result<()> {
    let name = ROUTES_MAP.parse()?;
    let epoch = maps.epoch(&name).await?;
    // Each epoch has at least one change.
    let first = epoch.saturating_sub(limit as u64);
    let (mut after, mut first_kept) = (first, maps.history(&name, 0, 0).await?.first_kept);
    let (mut changes, mut is_cut) = (VecDeque::new(), false);
    while after < epoch && limit > 0 {
        let page = maps.history(&name, after, limit).await?;
        let Some(last) = page.records.last() else { break };
        if after > first && page.first_kept > after + 1 {
            note("some changes are no longer kept");
        }
        (after, first_kept) = (last.epoch, page.first_kept);
        for record in page.records.iter().filter(|record| record.epoch <= epoch) {
            for change in &record.changes {
                if changes.len() == limit {
                    is_cut = changes.pop_front().is_some();
                }
                changes.push_back((document(record, change), row(record, change)));
            }
        }
    }
    let mut listing = Listing::table(out, Limit::default(), &HEADER);
    for (document, row) in changes {
        listing.push(document, || vec![row])?;
    }
    listing.finish((is_cut || first_kept <= first).then_some(RAISE_LIMIT))
}

/// What a change is about.
enum Subject<'a> {
    Application(&'a str),
    /// The program that makes the rules of an application.
    Program(&'a str),
    /// The node that runs such programs, or an entry of a newer nacre.
    Other(&'a str),
}

fn subject(change: &Change) -> Subject<'_> {
    let key = change.key();
    match (key.strip_prefix(APPLICATION_PREFIX), key.strip_prefix(CONTROL_PREFIX)) {
        (Some(name), _) => Subject::Application(name),
        (None, Some(name)) => Subject::Program(name),
        (None, None) => Subject::Other(key),
    }
}

fn document(record: &EpochRecord, change: &Change) -> Value {
    let value = change.value().map(|value| {
        let text = || Value::String(String::from_utf8_lossy(value).into_owned());
        serde_json::from_slice(value).unwrap_or_else(|_| text())
    });
    let mut document = json!({
        "epoch": record.epoch,
        "at_micros": record.at_micros,
        "author": record.author.as_str(),
        "change": if value.is_some() { "put" } else { "removed" },
    });
    match subject(change) {
        Subject::Application(name) => document["application"] = name.into(),
        Subject::Program(name) => {
            document["application"] = name.into();
            document["change"] =
                if change.value().is_some() { "started" } else { "stopped" }.into();
        }
        Subject::Other(key) => document["key"] = key.into(),
    }
    document["value"] = value.unwrap_or(Value::Null);
    document
}

fn row(record: &EpochRecord, change: &Change) -> Row {
    let about = subject(change);
    let subject_of_application = !matches!(about, Subject::Other(_));
    let (subject, text) = match about {
        Subject::Application(name) => (name, change.value().map(|value| rules(value))),
        Subject::Program(name) => {
            (name, Some(change.value().map_or("stopped".to_owned(), |v| started(v))))
        }
        Subject::Other(key) => (key, change.value().map(|value| as_text(value))),
    };
    vec![
        record.epoch.to_string(),
        utc(record.at_micros),
        record.author.to_string(),
        match subject_of_application {
            true => printable(subject),
            false => format!("({})", printable(subject)),
        },
        text.unwrap_or_else(|| "removed".to_owned()),
    ]
}

/// What was put, in a few words.
fn rules(value: &[u8]) -> String {
    let Ok(application) = serde_json::from_slice::<StoredApplication>(value) else {
        return as_text(value);
    };
    let of_switch = application.insertions.iter().map(|insertion| {
        let count = insertion.rules.len();
        format!("{count} rule{} on {}", if count == 1 { "" } else { "s" }, insertion.switch)
    });
    let all = printable(&of_switch.collect::<Vec<_>>().join(", "));
    format!("put {all}{}", if application.is_forced { ", forced" } else { "" })
}

fn started(value: &[u8]) -> String {
    match serde_json::from_slice::<StartedApplication>(value) {
        Ok(StartedApplication { program, settings, every_seconds }) => {
            let settings = settings.iter().map(|(name, value)| format!(", {name}={value}"));
            let settings: String = settings.collect();
            printable(&format!("started control/{program} every {every_seconds} s{settings}"))
        }
        Err(_) => as_text(value),
    }
}

fn as_text(value: &[u8]) -> String {
    printable(&String::from_utf8_lossy(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(changes: Vec<Change>) -> EpochRecord {
        let author = "alice".parse().unwrap();
        EpochRecord { epoch: 4, changes, author, at_micros: 0, origin: None }
    }

    #[test]
    fn a_change_says_who_put_or_removed_whose_rules() {
        let value = r#"{"order":0,"is_forced":true,"insertions":[
            {"switch":"every","rules":["a","b"]},{"switch":"storage.1","rules":["c"]}]}"#;
        let put = Change::set("application/night", value);
        let record = record(vec![put.clone()]);
        let cells = row(&record, &put);
        assert_eq!((&*cells[0], &*cells[2], &*cells[3]), ("4", "alice", "night"));
        assert_eq!(cells[4], "put 2 rules on every, 1 rule on storage.1, forced");
        let told = document(&record, &put);
        assert_eq!(told["value"]["insertions"][1]["switch"], "storage.1");
        let removed = Change::remove("application/night");
        assert_eq!(row(&record, &removed)[4], "removed");
        assert_eq!(document(&record, &removed)["change"], "removed");
    }

    #[test]
    fn a_started_program_is_shown_with_its_settings() {
        let value = r#"{"program":"tail","settings":{"alpha":3.0},"every_seconds":1.0}"#;
        let start = Change::set("control/night", value);
        let cells = row(&record(vec![start.clone()]), &start);
        assert_eq!(cells[4], "started control/tail every 1 s, alpha=3");
        let stop = Change::remove("control/night");
        assert_eq!(row(&record(vec![]), &stop)[4], "stopped");
        assert_eq!(document(&record(vec![]), &stop)["change"], "stopped");
    }

    #[test]
    fn an_entry_that_makes_no_sense_is_shown_as_it_is() {
        let strange = Change::set("application/x", "\u{1b}[2J");
        let cells = row(&record(vec![]), &strange);
        assert!(!cells[4].contains('\u{1b}'), "{cells:?}");
    }
}
