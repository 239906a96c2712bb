//! `nacre scrub`: has every storage node read all it keeps, and says what is damaged.
//!
//! Each node is asked for one step after the other, all nodes at once. Between steps it is left alone
//! for as long as the step took: a scrub takes half of a disk at most, and an interrupted one
//! leaves nothing behind.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use nacre::{ClusterFile, Error, ErrorKind, NodeEntry, Result, Role, Sessions};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{DamageReport, NODE_SERVICE, ScrubReport};
use serde_json::json;

use crate::out::{Out, note, printable};

/// A step takes milliseconds; where much is damaged, finding out whose it is may take seconds.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// What `nacre scrub` is told
#[derive(Debug, clap::Args)]
pub struct ScrubArguments {
    /// Examine this storage folder, or each target's in this cluster's folder, while no node runs; nothing
    /// in it is changed
    #[arg(long, value_name = "FOLDER")]
    pub offline: Option<PathBuf>,
}

/// What a scrub of a node came to.
#[derive(Debug, Default)]
struct Total {
    entries: u64,
    bytes: u64,
    /// What is damaged and was not made good.
    damages: u64,
    repaired: u64,
}

/// Scrubs all storage nodes.
///
/// # Errors
/// `Corrupt` if something is damaged; the first node's error if one could not be scrubbed.
pub async fn run(file: &ClusterFile, out: Out) -> Result<()> {
    let sessions = Sessions::new(file)?;
    let scrubs = file.with_role(Role::Storage).map(async |node| {
        let total = scrub(&sessions, node, out).await;
        total.map_err(|error| note_failure(node, error))
    });
    let totals: Vec<_> = join_all(scrubs).await;
    let mut damages = 0;
    for total in totals {
        damages += total?.damages;
    }
    if damages == 0 {
        return Ok(());
    }
    Err(Error::corrupt(format!("{damages} damaged places"))
        .hint("the rest goes on being served; write what is damaged again, or remove it"))
}

/// The others go on, so it is said at once which node it is.
fn note_failure(node: &NodeEntry, error: Error) -> Error {
    note(&format!("{}: {error}", node.name));
    error
}

async fn scrub(sessions: &Sessions, node: &NodeEntry, out: Out) -> Result<Total> {
    let (session, clock) = (sessions.session(&node.name)?, SystemClock::default());
    let mut total = Total::default();
    let mut next = Some(String::new());
    while let Some(cursor) = next.take() {
        let began = clock.monotonic();
        let answer = session.ask(NODE_SERVICE, "scrub", cursor.into(), STEP_TIMEOUT).await?;
        let took = clock.monotonic().saturating_sub(began);
        let step: ScrubReport = serde_json::from_slice(&answer)
            .map_err(|error| Error::new(ErrorKind::Corrupt, format!("its report: {error}")))?;
        total.add(&step);
        for damage in &step.damages {
            show(node, damage, out)?;
        }
        next = step.next;
        if next.is_some() {
            tokio::time::sleep(took).await;
        }
    }
    let Total { entries, bytes, damages, repaired } = total;
    let value = json!({ "node": node.name, "entries": entries, "bytes": bytes,
                        "damages": damages, "repaired": repaired });
    out.show(&value, || {
        let found = match (damages, repaired) {
            (0, 0) => "nothing is damaged".to_owned(),
            (damages, 0) => format!("{damages} damaged"),
            (damages, repaired) => format!("{damages} damaged, {repaired} repaired"),
        };
        format!("{}: {entries} entries, {bytes} bytes read, {found}", node.name)
    })?;
    Ok(total)
}

impl Total {
    fn add(&mut self, step: &ScrubReport) {
        let repaired = step.damages.iter().filter(|damage| damage.repaired).count();
        self.entries += step.entries;
        self.bytes += step.bytes;
        self.repaired += repaired as u64;
        self.damages += (step.damages.len() - repaired) as u64 + step.more_damages;
    }
}

fn show(node: &NodeEntry, damage: &DamageReport, out: Out) -> Result<()> {
    let value = json!({ "node": node.name, "damage": damage });
    out.show(&value, || {
        let DamageReport { object, snapshot, place, problem, repaired } = damage;
        let snapshot = snapshot.as_ref().map(|name| format!("@{name}")).unwrap_or_default();
        let whose = object.as_ref().map(|name| format!("{name}{snapshot}, ")).unwrap_or_default();
        let repaired = if *repaired { " (repaired)" } else { "" };
        printable(&format!("{}: {whose}{place}: {problem}{repaired}", node.name))
    })
}
