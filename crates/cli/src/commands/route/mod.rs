//! `nacre route …`: rules that send IO elsewhere.

mod applications;
mod cache;
mod file;
mod history;
mod list;
mod misplaced;
mod programs;
mod promises;
mod status;
mod trace;
mod wait;
mod waypoints;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use nacre::{Cluster, ClusterFile, Event, Severity};
use nacre_node::RouteMap;
use nacre_object::{ApplicationName, Error, Result};

use self::applications::StartArguments;
use self::cache::CacheCommand;
use self::file::Checked;
use self::wait::{Committed, Concerned, WaitArgument};
use crate::input;
use crate::listing::Limit;
use crate::out::{Out, note};

pub(crate) use self::file::targets;
pub(crate) use self::programs::check_versions;
pub(crate) use self::promises::check_slo_change;
pub(crate) use self::status::statuses;

/// How often `put` checks its rules again because others have changed rules meanwhile.
const MAX_CHECKS: usize = 16;

/// Install rules that send reads and writes to other targets, and see where they go
/// (docs/routes.md)
#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// Look for mistakes in a file of rules, and install nothing
    ///
    /// It reports loops, destinations that do not exist, rules that no IO reaches because of
    /// earlier rules, reads that can miss a write, and rules that send IO of a tenant with a promised
    /// latency to a target for which its traffic was not admitted.
    Check {
        /// A file of rules; `-` is standard input
        file: PathBuf,
    },
    /// Check a file of rules and install it
    ///
    /// The rules of a file are grouped in applications. They replace the installed rules of
    /// applications with the same names.
    ///
    /// Returns when the rules are in force on every switch that they concern.
    Put {
        /// A file of rules; `-` is standard input
        file: PathBuf,
        /// Install the rules even if the check finds a mistake; the cluster log records this
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        wait: WaitArgument,
    },
    /// List the rules, in the order of their installation
    #[command(alias = "list")]
    Ls(Limit),
    /// Print the rules of one application, as a file
    Show { application: ApplicationName },
    /// Remove the rules of an application; bytes that they sent elsewhere are moved back
    #[command(alias = "remove")]
    Rm {
        application: ApplicationName,
        /// Remove the rules even if objects then stay encoded by a waypoint; the cluster log records
        /// this
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        wait: WaitArgument,
    },
    /// Show where an IO such as `r data/vm1 0..1MiB` goes: which rule sends which bytes to which
    /// target
    Trace {
        /// The IO: [entity:NAME] [tenant:NAME] r|w|c|d POOL/NAME [RANGE], where r reads, w writes,
        /// c creates and d deletes the object, and RANGE is such as 0..1MiB
        #[arg(required = true)]
        io: Vec<String>,
    },
    /// Show how often each node has applied each rule, and how many bytes it has sent to other
    /// targets
    Status,
    /// Print who changed the rules of which application and when, the oldest change first
    History {
        /// Print the last N changes
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Have a control program make the rules of an application (docs/routes.md#control-applications)
    ///
    /// Put the program first: nacre program put control/NAME FILE --activate
    Start(StartArguments),
    /// Stop an application whose rules a program makes, and remove its rules
    Stop {
        application: ApplicationName,
        #[command(flatten)]
        wait: WaitArgument,
    },
    /// List the applications whose rules programs make: which node runs them, and how their last run
    /// ended
    Applications,
    /// Cache reads in the memory of nodes, and divide this memory among tenants
    #[command(subcommand)]
    Cache(CacheCommand),
}

/// Runs one of them.
pub async fn run(
    command: RouteCommand,
    file: impl FnOnce() -> Result<ClusterFile>,
    out: Out,
) -> Result<()> {
    use RouteCommand as C;
    let file = file()?;
    let cluster = Cluster::reach(&file)?;
    let map = RouteMap::new(cluster.maps().clone());
    match command {
        C::Check { file: rules } => check(&rules, &file, &cluster, &map, out).await,
        C::Put { file: rules, force, wait } => {
            let (epoch, concerned) = put(&rules, force, &file, &cluster).await?;
            Committed { file: &file, wait, epoch }.of_rules(&concerned, out).await
        }
        C::Ls(limit) => list::ls(&map, limit, out).await,
        C::Show { application } => list::show(&map, &application, out).await,
        C::Rm { application, force, wait } => {
            let (epoch, concerned) = remove(&application, force, &cluster, &map).await?;
            Committed { file: &file, wait, epoch }.of_rules(&concerned, out).await
        }
        C::Trace { io } => trace::trace(&file, &cluster, &io.join(" "), out).await,
        C::Status => status::status(&file, out).await,
        C::History { limit } => history::history(cluster.maps(), limit, out).await,
        C::Cache(command) => cache::run(command, &file, &cluster, out).await,
        C::Start(arguments) => applications::start(&arguments, &file, &cluster, &map, out).await,
        C::Stop { application, wait } => {
            let before = map.state().await?;
            let epoch = map.stop(&application).await?;
            let concerned = Concerned::of_former(&before, &application);
            Committed { file: &file, wait, epoch }.of_rules(&concerned, out).await
        }
        C::Applications => applications::list(&file, &map, out).await,
    }
}

async fn check(
    rules: &Path,
    file: &ClusterFile,
    cluster: &Cluster,
    map: &RouteMap,
    out: Out,
) -> Result<()> {
    let text = input::read_text(rules)?;
    let checked = Checked::of(&text, file, cluster, &map.state().await?).await?;
    out.show(&checked.report(), || checked.text())?;
    checked.verdict()
}

/// Stores the rules of a file. Returns the new epoch and the switches that it concerns.
async fn put(
    rules: &Path,
    is_forced: bool,
    file: &ClusterFile,
    cluster: &Cluster,
) -> Result<(u64, Concerned)> {
    let map = RouteMap::new(cluster.maps().clone());
    let text = input::read_text(rules)?;
    for _ in 0..MAX_CHECKS {
        if let Some(stored) = check_and_put(&text, is_forced, file, cluster, &map).await? {
            return Ok(stored);
        }
    }
    Err(Error::conflict(
        "others change rules again and again, so these could not be checked with them",
    )
    .hint("put them again when the other commands have ended"))
}

/// Checks the rules together with the present ones, and stores them. Returns `None` if others have
/// changed rules meanwhile.
async fn check_and_put(
    text: &str,
    is_forced: bool,
    file: &ClusterFile,
    cluster: &Cluster,
    map: &RouteMap,
) -> Result<Option<(u64, Concerned)>> {
    let before = map.state().await?;
    let checked = Checked::of(text, file, cluster, &before).await?;
    let verdict = checked.verdict();
    if let Err(error) = verdict {
        if !is_forced {
            let hint = error.hint_text().unwrap_or("correct the rules");
            let hint = format!("{hint}, or install them all the same: --force");
            return Err(error.hint(hint));
        }
        let names: Vec<_> = checked.applications.keys().map(ToString::to_string).collect();
        let text =
            format!("unsafe rules of {} are installed: {}", names.join(", "), error.message());
        cluster.events().append(Event::new(Severity::Warning, text)).await?;
        note(error.message());
    }
    let stored = checked.stored(is_forced);
    let Some(epoch) = map.put(&stored, &before).await? else { return Ok(None) };
    let mut concerned = Concerned::default();
    for (name, application) in &stored {
        concerned.add(application);
        before.applications.get(name).iter().for_each(|former| concerned.add(former));
    }
    Ok(Some((epoch, concerned)))
}

/// Ends the rules of an application. Returns the new epoch and the switches that it concerns.
async fn remove(
    name: &ApplicationName,
    is_forced: bool,
    cluster: &Cluster,
    map: &RouteMap,
) -> Result<(u64, Concerned)> {
    let before = map.state().await?;
    let mut after = before.clone();
    after.applications.remove(name);
    if let Some(lost) = waypoints::lost_in(cluster, &before, &after).await?.first() {
        if !is_forced {
            let hint = format!("{}; or remove it all the same: --force", waypoints::LOST_HINT);
            return Err(Error::conflict(lost).hint(hint));
        }
        cluster.events().append(Event::new(Severity::Warning, lost)).await?;
        note(lost);
    }
    let epoch = map.remove(name).await?;
    Ok((epoch, Concerned::of_former(&before, name)))
}
