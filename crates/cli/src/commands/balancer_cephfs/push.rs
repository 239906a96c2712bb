//! `nacre balancer cephfs push`: checks a policy, stores it under a new name, and makes all ranks
//! (MDSs) run it. If a rank reports an error or throughput drops, the command makes the former
//! policy active again.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use nacre_balance::RankLoad;
use nacre_cephfs::{CephFs, FsMap, Reports};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, FaultSite, ProgramName, Result};
use nacre_rados::Expected;
use serde_json::json;

use super::rehearsal::{self, Checked};
use super::throughput::ThroughputBound;
use super::versions::{Index, Version, object_name};
use super::{FileSystemOptions, source_of};
use crate::input::{read_text, seconds};
use crate::out::{Out, note};

/// How many ticks a new policy is watched. The first tick may pass before all ranks have loaded the
/// policy. The second measures it: a drop counts only if it lasts a whole tick. In the third, the
/// ranks report what happened in the second: their heartbeats report a tick after its end.
const WATCHED_TICKS: u32 = 3;
/// The default of `--max-drop`, in percent. Migrations and redirected clients reduce the throughput
/// for a short time, but by less than half.
const DEFAULT_MAX_DROP: f64 = 50.0;
/// How long after the beginning of a tick its reports arrive in the cluster log, at most.
const REPORT_DELAY: Duration = Duration::from_secs(2);
/// How often the cluster log is read.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The arguments of `nacre balancer cephfs push`
#[derive(Debug, clap::Args)]
pub struct PushArguments {
    /// The file with the policy. A policy written as in the Mantle paper is translated into Ceph's
    /// form; `--dry-run` lists what Ceph cannot express
    #[arg(value_name = "POLICY_FILE")]
    file: PathBuf,
    /// The policy's name (default: the file's name without its extension)
    #[arg(long)]
    name: Option<ProgramName>,
    /// Seconds to watch the ranks' errors and throughput after the switch (default: three times
    /// Ceph's `mds_bal_interval`)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,
    /// Switch back if the throughput of all ranks together stays more than PERCENT below the former
    /// throughput for one `mds_bal_interval` of Ceph
    #[arg(long, value_name = "PERCENT", default_value_t = DEFAULT_MAX_DROP, value_parser = percent)]
    max_drop: f64,
    /// Check the policy and show what each rank would do now, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: FileSystemOptions,
}

/// Pushes a policy.
///
/// # Errors
/// - `Fault`, `Invalid` or `Exhausted` if the policy fails in the dry run.
/// - `Unsupported` if the file system does not balance.
/// - `Fault` if a rank reported an error or throughput dropped; the former policy is then active
///   again.
pub async fn run(arguments: PushArguments, out: Out) -> Result<()> {
    let PushArguments { file, name, watch, max_drop, dry_run, place } = arguments;
    let source = read_text(&file)?;
    let name = match name {
        Some(name) => name,
        None => name_of(&file)?,
    };
    let losses = rehearsal::compile(name.as_str(), 0, &source)?.losses;
    losses.iter().for_each(|lost| note(&format!("lost: {lost}")));
    let fs = place.open().await?;
    let map = fs.map().await?;
    check_ready(&fs, &map)?;
    let (index, expected) = Index::read(&fs.pool).await?;
    let version = index.next_version(name.as_str());
    let Checked { policy, source, losses } = rehearsal::compile(name.as_str(), version, &source)?;
    let loads = fs.loads(&map).await?;
    let decisions = rehearsal::decide_as_all(&policy, &loads)?;
    let said: Vec<_> =
        decisions.iter().enumerate().map(|(rank, it)| rehearsal::describe(rank, it)).collect();
    if dry_run {
        let value = json!({ "decisions": decisions, "losses": losses, "source": source });
        return out.show(&value, || said.join("\n"));
    }
    if is_active(&fs, &map, name.as_str(), &source).await? {
        return out.show(&json!({ "active": map.balancer, "watched_seconds": 0 }), || {
            format!("{} is active already", map.balancer)
        });
    }
    said.iter().for_each(|line| note(line));
    let object = object_name(name.as_str(), version, policy_digest(&source));
    let pushed = Version {
        name: name.to_string(),
        version,
        object,
        pushed_at_micros: SystemClock::default().now_micros(),
        taken_back: None,
    };
    // These requests come before the switch, because a policy that cannot be watched must not
    // become active.
    let tick = fs.tick(&map).await?;
    let watched = match watch {
        Some(seconds) => Duration::from_secs_f64(seconds),
        None => tick * WATCHED_TICKS + REPORT_DELAY,
    };
    let before = requests_within(&fs, &map, tick).await?;
    let bound = ThroughputBound::new(before, max_drop, tick);
    switch(&fs, (index, expected), &pushed, &source, &map.balancer).await?;
    let object = &pushed.object;
    note(&format!("{object} is active; watching the ranks for {watched:.1?}"));
    let is_throughput_watched = bound.is_watched();
    let reports = match watch_ranks(&fs, object, watched, bound).await? {
        Watched::Sound(reports) => reports,
        Watched::Bad(reason) => {
            return Err(take_back(&fs, &pushed, &map.balancer, &reason).await?);
        }
    };
    let value = json!({
        "active": object, "before": map.balancer, "is_loaded": reports.is_loaded,
        "watched_seconds": watched.as_secs_f64(), "is_throughput_watched": is_throughput_watched,
    });
    out.show(&value, || match reports.is_loaded {
        true => format!("{object} is active, and no rank reported an error"),
        false => format!(
            "{object} is active, but no rank has loaded it yet; see `status` later. Ceph 18 and later also need: \
             ceph fs set {} balance_automate true",
            fs.name()
        ),
    })
}

fn policy_digest(source: &str) -> nacre_program::Digest {
    nacre_program::Digest::of(source.as_bytes())
}

fn name_of(file: &std::path::Path) -> Result<ProgramName> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    ProgramName::new(stem).map_err(|error| error.hint("name the policy with --name"))
}

/// Fails if the file system's ranks would not run a policy.
fn check_ready(fs: &CephFs, map: &FsMap) -> Result<()> {
    let name = fs.name();
    if map.balance_automate == Some(false) {
        let version = map.ranks.first().map(|rank| rank.ceph_version.as_str()).unwrap_or_default();
        let text = format!("{name} runs no policy: its balance_automate is off (Ceph {version})");
        return Err(Error::unsupported(text)
            .hint(format!("turn it on: ceph fs set {name} balance_automate true")));
    }
    match map.ranks.iter().position(|rank| rank.state != "up:active") {
        Some(rank) => {
            let text = format!("rank {rank} of {name} is {}, not active", map.ranks[rank].state);
            Err(Error::unavailable(text)
                .hint("ranks balance only when all of them are active; try again later"))
        }
        None => Ok(()),
    }
}

/// Whether this very source is active under this name.
async fn is_active(fs: &CephFs, map: &FsMap, name: &str, source: &str) -> Result<bool> {
    if !map.balancer.starts_with(&format!("{name}.v")) {
        return Ok(false);
    }
    Ok(source_of(fs, &map.balancer).await?.is_some_and(|active| active == source.as_bytes()))
}

/// Stores the policy, and makes the ranks run it. The index of pushed policies is stored before the
/// switch, because `rollback` finds only policies in this index.
async fn switch(
    fs: &CephFs,
    (mut index, expected): (Index, Expected),
    pushed: &Version,
    source: &str,
    active: &str,
) -> Result<()> {
    let content = Bytes::copy_from_slice(source.as_bytes());
    fs.pool.write(&pushed.object, Expected::Anything, content).await?;
    let removable = index.push(pushed.clone(), active);
    index.store(&fs.pool, expected).await?;
    fs.set_balancer(&pushed.object).await?;
    for object in removable {
        fs.pool.remove(&object).await?;
    }
    Ok(())
}

/// The result of watching the ranks.
enum Watched {
    /// Nothing is wrong with the policy.
    Sound(Reports),
    /// The former policy must become active again, for this reason.
    Bad(String),
}

/// Watches Ceph's cluster log and the ranks' loads for the time of `--watch`. Returns early if a
/// rank reports an error, if the ranks serve too few requests, or if somebody switches to another
/// policy.
async fn watch_ranks(
    fs: &CephFs,
    object: &str,
    watched: Duration,
    mut bound: ThroughputBound,
) -> Result<Watched> {
    let clock = SystemClock::default();
    let end = clock.monotonic() + watched;
    loop {
        let unwatched = |error: Error| {
            error.hint(format!("{object} stays active; `rollback` makes the former policy active"))
        };
        let reports = fs.reports(object).await.map_err(unwatched)?;
        if !reports.failures.is_empty() {
            let reason = reports.failures.join("; ");
            return Ok(Watched::Bad(format!("a rank could not run it: {reason}")));
        }
        if clock.monotonic() >= end {
            return Ok(Watched::Sound(reports));
        }
        let map = fs.map().await.map_err(unwatched)?;
        if map.balancer != object {
            return Err(Error::conflict("somebody else has switched the ranks to another policy")
                .on(object)
                .hint("see the active policy with `nacre balancer cephfs status`"));
        }
        if bound.is_watched() {
            let loads = fs.loads(&map).await.map_err(unwatched)?;
            if let Some(reason) = bound.hear(clock.monotonic(), requests_per_second(&loads)) {
                return Ok(Watched::Bad(reason));
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The mean of the requests a second during a time. A single sample could fall into a pause in
/// which the ranks serve no requests.
async fn requests_within(fs: &CephFs, map: &FsMap, time: Duration) -> Result<f64> {
    let clock = SystemClock::default();
    let end = clock.monotonic() + time;
    let (mut sum, mut looks) = (0.0, 0.0);
    while looks == 0.0 || clock.monotonic() < end {
        sum += requests_per_second(&fs.loads(map).await?);
        looks += 1.0;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(sum / looks)
}

fn requests_per_second(loads: &[RankLoad]) -> f64 {
    loads.iter().map(|load| load.requests).sum()
}

fn percent(text: &str) -> Result<f64> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| Error::invalid("a percentage is a number from 0 to 100"))
}

/// Makes the policy `before` active again, and returns the error with which the command ends.
async fn take_back(fs: &CephFs, pushed: &Version, before: &str, reason: &str) -> Result<Error> {
    let object = &pushed.object;
    if fs.map().await?.balancer == *object {
        fs.set_balancer(before).await?;
    }
    // Switch the ranks first, so that they run the former policy even if the index cannot be
    // changed.
    if let Err(error) = note_failure(fs, object, reason).await {
        note(&format!("the history does not say that {object} was taken back: {error}"));
    }
    let active = if before.is_empty() { "Ceph's own balancer" } else { before };
    let site =
        FaultSite { program: pushed.name.clone(), version: pushed.version, ..FaultSite::default() };
    let text = format!("{object} was taken back: {reason}");
    Ok(Error::fault_at(site, text).hint(format!(
        "{active} is active again; if a rank failed, the log of its MDS has the line of the error, after `mantle could not`"
    )))
}

async fn note_failure(fs: &CephFs, object: &str, reason: &str) -> Result<()> {
    let (mut index, expected) = Index::read(&fs.pool).await?;
    index.step_back(object);
    index.note_failure(object, reason);
    index.store(&fs.pool, expected).await
}
