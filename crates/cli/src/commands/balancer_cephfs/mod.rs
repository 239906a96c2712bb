//! `nacre balancer cephfs …`: manages balancer policies of CephFS' metadata servers (MDS), and
//! keeps their versions.
//!
//! The crate `nacre-cephfs` sends the requests to Ceph.
//!
//! | file | holds |
//! | --- | --- |
//! | `versions` | the index of pushed policies, in the metadata pool |
//! | `rehearsal` | the translation and the dry run |
//! | `push` | stores a policy, switches to it, watches it, and switches back if it fails |
//! | `throughput` | whether a file system serves fewer requests since the switch |
//! | `record` | writes the loads at each tick into a file |

mod push;
mod record;
mod rehearsal;
mod throughput;
mod versions;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use nacre_cephfs::{CephFs, FsMap};
use nacre_object::limits::MAX_REQUEST_BYTES;
use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use serde_json::json;

use crate::input::read_text;
use crate::listing::{Limit, Listing};
use crate::out::{Out, note, table, utc};
use versions::{Index, Version};

/// Manage the balancer policy of a CephFS file system: its metadata servers (ranks) run the policy,
/// and nacre keeps the policy's versions
#[derive(Debug, clap::Subcommand)]
pub enum CephfsCommand {
    /// Check and store a policy, and switch all ranks to it; switch back if a rank fails or
    /// throughput drops
    Push(push::PushArguments),
    /// Translate a policy written as in the Mantle paper into Ceph's form, and list what Ceph
    /// cannot express
    Translate {
        /// The file with the policy
        #[arg(value_name = "POLICY_FILE")]
        file: PathBuf,
    },
    /// Write the loads of the ranks into a file, for `nacre balancer replay` and `simulate`
    Record(record::RecordArguments),
    /// Print the source of the active policy
    Pull(FileSystemOptions),
    /// Show the active policy, the ranks' reports about it, and their loads
    Status(FileSystemOptions),
    /// Go back to the policy that was active before
    Rollback(FileSystemOptions),
    /// Show the versions that were pushed, the oldest first
    History {
        #[command(flatten)]
        place: FileSystemOptions,
        #[command(flatten)]
        limit: Limit,
    },
}

/// Which file system is meant
#[derive(Debug, clap::Args)]
pub struct FileSystemOptions {
    /// The file system (default: the only one of the cluster)
    #[arg(long, value_name = "FS")]
    fs: Option<String>,
    /// The Ceph cluster, as `/path/ceph.conf[?user=NAME]` (default: where Ceph's own tools look)
    #[arg(long, value_name = "CONF", default_value = "", hide_default_value = true, value_parser = conf)]
    ceph: RadosOptions,
}

pub(crate) fn conf(text: &str) -> Result<RadosOptions> {
    let path = text.strip_prefix(RadosOptions::PREFIX).unwrap_or(text);
    format!("{}{path}", RadosOptions::PREFIX).parse()
}

impl FileSystemOptions {
    async fn open(self) -> Result<CephFs> {
        CephFs::open(self.ceph, self.fs).await
    }
}

/// Runs one of them.
///
/// # Errors
/// Those of the command.
pub async fn run(command: CephfsCommand, out: Out) -> Result<()> {
    match command {
        CephfsCommand::Push(arguments) => push::run(arguments, out).await,
        CephfsCommand::Translate { file } => translate(&file, out),
        CephfsCommand::Record(arguments) => record::run(arguments, out).await,
        CephfsCommand::Pull(place) => pull(&place.open().await?, out).await,
        CephfsCommand::Status(place) => status(&place.open().await?, out).await,
        CephfsCommand::Rollback(place) => rollback(&place.open().await?, out).await,
        CephfsCommand::History { place, limit } => history(&place.open().await?, limit, out).await,
    }
}

fn translate(file: &Path, out: Out) -> Result<()> {
    let checked = rehearsal::compile("policy", 0, &read_text(file)?)?;
    checked.losses.iter().for_each(|lost| note(&format!("lost: {lost}")));
    out.show(&json!({ "source": checked.source, "losses": checked.losses }), || {
        checked.source.trim_end().to_owned()
    })
}

/// The content of a policy's object, if it is there.
async fn source_of(fs: &CephFs, object: &str) -> Result<Option<Bytes>> {
    Ok(fs.pool.read(object, MAX_REQUEST_BYTES).await?.map(|(content, _)| content))
}

async fn pull(fs: &CephFs, out: Out) -> Result<()> {
    let object = fs.map().await?.balancer;
    if object.is_empty() {
        return Err(Error::not_found(format!("{} has no policy", fs.name()))
            .hint("push a policy; until then the ranks run Ceph's own balancer"));
    }
    let Some(source) = source_of(fs, &object).await? else {
        return Err(Error::not_found("the object of the active policy is missing")
            .on(object)
            .hint(
                "the ranks cannot run the policy: go back with `rollback`, or push another one",
            ));
    };
    match out.is_json() {
        true => {
            let source = String::from_utf8_lossy(&source);
            out.show(&json!({ "object": object, "source": source }), String::new)
        }
        false => out.bytes(&source),
    }
}

async fn status(fs: &CephFs, out: Out) -> Result<()> {
    let map = fs.map().await?;
    let (index, _) = Index::read(&fs.pool).await?;
    let reports = fs.reports(&map.balancer).await?;
    let loads = fs.loads(&map).await?;
    let known = index.find(&map.balancer);
    let ranks = map.ranks.iter().zip(&loads).enumerate().map(|(number, (rank, load))| {
        json!({
            "rank": number, "mds": rank.mds, "state": rank.state, "ceph": rank.ceph_version,
            "auth": load.auth, "all": load.all, "requests_per_second": load.requests,
            "queue": load.queue, "cpu": load.cpu,
        })
    });
    let value = json!({
        "file_system": fs.name(), "object": map.balancer,
        "name": known.map(|known| &known.name), "version": known.map(|known| known.version),
        "balance_automate": map.balance_automate, "rank_mask": map.rank_mask,
        "failures": reports.failures, "ranks": ranks.collect::<Vec<_>>(),
    });
    out.show(&value, || {
        let rows = map.ranks.iter().zip(&loads).enumerate().map(|(number, (rank, load))| {
            let numbers = [load.auth, load.all, load.requests, load.queue, load.cpu];
            let mut row = vec![number.to_string(), rank.mds.clone(), rank.state.clone()];
            row.extend(numbers.map(|number| format!("{number:.1}")));
            row
        });
        let header = ["rank", "mds", "state", "own load", "all load", "requests/s", "queue", "cpu"];
        let rows = table(&header, &rows.collect::<Vec<_>>());
        format!("{}\n{rows}", describe(&map, known, &reports.failures).join("\n"))
    })
}

/// What the status says besides the table of ranks.
fn describe(map: &FsMap, known: Option<&Version>, failures: &[String]) -> Vec<String> {
    let policy = match known {
        _ if map.balancer.is_empty() => "no policy: the ranks run Ceph's own balancer".to_owned(),
        Some(known) => {
            let Version { name, version, object, .. } = known;
            format!("policy {name}, version {version}, in the object {object}")
        }
        None => format!("a policy in the object {}, which nacre did not push", map.balancer),
    };
    let mut lines = vec![policy];
    if map.balance_automate == Some(false) {
        lines.push("balance_automate is off: the ranks run no policy".to_owned());
    }
    if let Some(mask) = map.rank_mask.as_ref().filter(|mask| *mask != "-1") {
        lines.push(format!("bal_rank_mask is {mask}: only these ranks balance"));
    }
    lines.extend(failures.iter().map(|failure| format!("failed on {failure}")));
    lines
}

async fn rollback(fs: &CephFs, out: Out) -> Result<()> {
    let active = fs.map().await?.balancer;
    let (mut index, expected) = Index::read(&fs.pool).await?;
    let Some(before) = index.step_back(&active) else {
        return Err(Error::not_found("no policy was active before")
            .on(fs.name())
            .hint(format!("for Ceph's own balancer: ceph fs set {} balancer ''", fs.name())));
    };
    fs.set_balancer(&before).await?;
    index.store(&fs.pool, expected).await?;
    out.show(&json!({ "active": before, "before": active }), || match before.is_empty() {
        true => "Ceph's own balancer is active".to_owned(),
        false => format!("{before} is active"),
    })
}

async fn history(fs: &CephFs, limit: Limit, out: Out) -> Result<()> {
    const HEADER: [&str; 5] = ["policy", "version", "pushed at", "object", "state"];
    let active = fs.map().await?.balancer;
    let (index, _) = Index::read(&fs.pool).await?;
    let state = |version: &Version| match &version.taken_back {
        _ if version.object == active => "active".to_owned(),
        Some(reason) => format!("taken back: {reason}"),
        None => "-".to_owned(),
    };
    Listing::table(out, Limit::default(), &HEADER).all(
        limit.latest(index.versions),
        |version| json!({ "version": version, "is_active": version.object == active }),
        |version| {
            vec![vec![
                version.name.clone(),
                version.version.to_string(),
                utc(version.pushed_at_micros),
                version.object.clone(),
                state(version),
            ]]
        },
    )
}
