//! `nacre scrub`: every storage node reads all its data. The command reports damaged objects, and
//! objects that are on the wrong target.
//!
//! All nodes scrub at the same time. Each node proceeds in steps, and pauses after each step for as
//! long as the step took. So a scrub uses at most half of a disk's time. A scrub has no state to
//! clean up, so it can be interrupted at any time.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use nacre::{ClusterFile, Error, ErrorKind, NodeEntry, Result, RoleName, Sessions};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{DamageReport, STORAGE_SERVICE, ScrubReport, StrayReport};
use serde_json::json;

use super::salvage::damaged_places;
use crate::out::{Out, note, printable};

/// A step usually takes milliseconds. If much is damaged, it may take seconds to find the affected
/// objects.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// The arguments of `nacre scrub`
#[derive(Debug, clap::Args)]
pub struct ScrubArguments {
    /// Check this folder instead, while no node runs, and change nothing: the folder of one storage
    /// target, or of a whole cluster
    #[arg(long, value_name = "DIR")]
    pub offline: Option<PathBuf>,
    /// Remove a stray, which a scrub has listed: an object on a target where no client looks for it
    #[arg(long, num_args = 2, value_names = ["TARGET", "POOL/OBJECT"], conflicts_with = "offline")]
    pub remove_stray: Option<Vec<String>>,
}

/// What a scrub of a node came to.
#[derive(Debug, Default)]
struct Total {
    entries: u64,
    bytes: u64,
    /// Damages that the node could not repair.
    damages: u64,
    repaired: u64,
    strays: u64,
}

/// Scrubs all storage nodes.
///
/// # Errors
/// `Corrupt` if something is damaged. If a node could not be scrubbed, the error of the first such
/// node.
pub async fn run(file: &ClusterFile, out: Out) -> Result<()> {
    let sessions = Sessions::new(file)?;
    let scrubs = file.with_role(RoleName::Storage).map(async |node| {
        let total = scrub(&sessions, node, out).await;
        total.map_err(|error| note_failure(node, error))
    });
    let totals: Vec<_> = join_all(scrubs).await;
    let (mut damages, mut strays) = (0, 0);
    for total in totals {
        let total = total?;
        damages += total.damages;
        strays += total.strays;
    }
    if damages == 0 && strays == 0 {
        return Ok(());
    }
    if damages == 0 {
        return Err(Error::corrupt(format!(
            "{strays} objects are strays: on targets where no client looks for them"
        ))
        .hint(
            "`nacre scrub --remove-stray TARGET POOL/OBJECT` removes one; docs/damage.md says more",
        ));
    }
    Err(Error::corrupt(damaged_places(damages))
        .hint("all other data is still served; write the damaged objects again, or remove them"))
}

/// Removes a stray object from a target on which it does not belong.
///
/// # Errors
/// `Invalid` if the object belongs on the target; `NotFound` if the target has no such object.
pub async fn remove_stray(file: &ClusterFile, target: &str, object: &str, out: Out) -> Result<()> {
    let sessions = Sessions::new(file)?;
    let input = object.to_owned().into();
    sessions.session(target)?.ask(STORAGE_SERVICE, "remove-stray", input, STEP_TIMEOUT).await?;
    let value = json!({ "removed": object, "target": target });
    out.show(&value, || format!("removed {object} from {target}"))
}

/// Prints a node's failure at once, because the scrubs of the other nodes go on.
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
        let answer = session.ask(STORAGE_SERVICE, "scrub", cursor.into(), STEP_TIMEOUT).await?;
        let took = clock.monotonic().saturating_sub(began);
        let step: ScrubReport = serde_json::from_slice(&answer).map_err(|error| {
            Error::new(
                ErrorKind::Corrupt,
                format!("the report of {} cannot be read: {error}", node.name),
            )
        })?;
        total.add(&step);
        for damage in &step.damages {
            show(node, damage, out)?;
        }
        for stray in &step.strays {
            show_stray(node, stray, out)?;
        }
        next = step.next;
        if next.is_some() {
            tokio::time::sleep(took).await;
        }
    }
    let Total { entries, bytes, damages, repaired, strays } = total;
    let value = json!({ "node": node.name, "entries": entries, "bytes": bytes,
                        "damages": damages, "repaired": repaired, "strays": strays });
    out.show(&value, || {
        let mut found = match (damages, repaired) {
            (0, 0) => "nothing is damaged".to_owned(),
            (damages, 0) => format!("{damages} damaged"),
            (damages, repaired) => format!("{damages} damaged, {repaired} repaired"),
        };
        if strays > 0 {
            found += &format!(", {strays} strays");
        }
        format!("{}: {entries} entries, {} read, {found}", node.name, out.size(bytes))
    })?;
    Ok(total)
}

impl Total {
    fn add(&mut self, step: &ScrubReport) {
        let repaired = step.damages.iter().filter(|damage| damage.repaired).count();
        self.entries += step.entries;
        self.bytes += step.bytes;
        self.repaired += repaired as u64;
        self.strays += step.strays.len() as u64;
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

fn show_stray(node: &NodeEntry, stray: &StrayReport, out: Out) -> Result<()> {
    let value = json!({ "node": node.name, "stray": stray });
    out.show(&value, || {
        let StrayReport { object, holder } = stray;
        printable(&format!(
            "{}: {object}: a stray, as {holder} holds objects of this name",
            node.name
        ))
    })
}
