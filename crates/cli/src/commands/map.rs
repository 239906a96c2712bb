//! `nacre map …`: service metadata.

use clap::Subcommand;
use nacre::{Change, Cluster, EpochRecord, MapEvent, MapState, is_system_map};
use nacre_object::{Error, MapName, Result};
use serde_json::{Value, json};

use crate::entries::Entries;
use crate::listing::{Limit, Listing, RAISE_LIMIT, line};
use crate::out::{Out, json_bytes, note, printable, table, text_bytes, utc};
use crate::reader::while_read;

/// Epochs shown by `history` unless told otherwise.
const DEFAULT_HISTORY: usize = 20;
const SOME_ARE_GONE: &str = "some epochs are no longer kept";

/// Work with maps: strongly consistent, epoch-numbered service metadata
#[derive(Debug, Subcommand)]
pub enum MapCommand {
    /// List the maps
    #[command(alias = "list")]
    Ls {
        /// List nacre's own maps as well
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// Print a map, or one key's value
    Get { map: MapName, key: Option<String> },
    /// Set keys in one commit; prints the new epoch
    Set {
        map: MapName,
        #[command(flatten)]
        entries: Entries,
        /// Commit only if the map is at this epoch, its version number
        #[arg(long)]
        epoch: Option<u64>,
        #[command(flatten)]
        system: SystemArgument,
    },
    /// Remove keys in one commit; prints the new epoch
    #[command(alias = "remove")]
    Rm {
        map: MapName,
        #[arg(required = true)]
        keys: Vec<String>,
        /// Commit only if the map is at this epoch, its version number
        #[arg(long)]
        epoch: Option<u64>,
        #[command(flatten)]
        system: SystemArgument,
    },
    /// Delete a map with its entries and history; prints the new epoch
    ///
    /// A map on which a map program runs is not deleted. Watchers see that the map is empty. A new
    /// map of the same name continues the epochs of the deleted one.
    Delete {
        map: MapName,
        /// Delete only if the map is at this epoch, its version number
        #[arg(long)]
        epoch: Option<u64>,
    },
    /// Print the commits of a map, the oldest first
    History {
        map: MapName,
        /// Print the last N commits
        #[arg(long, default_value_t = DEFAULT_HISTORY)]
        limit: usize,
    },
    /// Print every commit as it happens, until interrupted
    Watch {
        map: MapName,
        /// Begin after this epoch (default: now)
        #[arg(long)]
        from: Option<u64>,
    },
}

/// Permission to change nacre's own maps
#[derive(Debug, clap::Args)]
pub struct SystemArgument {
    /// Allow MAP to be one of nacre's own maps; a wrong change there can break the cluster
    #[arg(long)]
    system: bool,
}

impl SystemArgument {
    /// # Errors
    /// `Invalid` if the map is one of nacre's own. The hint names the command that should change
    /// this map.
    fn check(&self, map: &MapName) -> Result<()> {
        if self.system || !is_system_map(map) {
            return Ok(());
        }
        let text = format!("map {map} is one of nacre's own maps");
        let instead = match command_for(map) {
            Some(command) => format!("change it with `nacre {command}`"),
            None => "the nodes write it".to_owned(),
        };
        Err(Error::invalid(text).hint(format!(
            "{instead}; --system writes the map all the same, and a wrong entry can break the cluster"
        )))
    }
}

/// The command that changes one of nacre's own maps, if there is one.
fn command_for(map: &MapName) -> Option<&'static str> {
    match map.as_str() {
        "pools" => Some("pool"),
        "programs" => Some("program"),
        "entities" => Some("entity"),
        "layouts" => Some("brados"),
        "routes" => Some("route"),
        map if map.starts_with("log.") => Some("log"),
        _ => None,
    }
}

/// Runs one of them.
pub async fn run(command: MapCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use MapCommand as C;
    let maps = cluster.maps();
    match command {
        C::Ls { all, limit } => Listing::lines(out, limit).all(
            maps.list().await?.into_iter().filter(|name| all || !is_system_map(name)),
            |name| json!({ "map": name.as_str() }),
            |name| line(name.as_str()),
        ),
        C::Get { map, key: None } => {
            let state = maps.get(&map).await?;
            if state.epoch == 0 {
                return Err(Error::not_found(format!("there is no map {map}"))
                    .hint(format!("make it with `nacre map set {map} KEY=VALUE`")));
            }
            show_map(&state, out)
        }
        C::Get { map, key: Some(key) } => {
            let (epoch, value) = maps.entry(&map, &key).await?;
            let missing = || Error::not_found(format!("map {map} has no key {key:?}"));
            let value = value.ok_or_else(missing)?;
            let shown = json!({ "epoch": epoch, "value": json_bytes(&value) });
            out.show(&shown, || text_bytes(&value))
        }
        C::Set { map, entries, epoch, system } => {
            system.check(&map)?;
            let changes = entries.read()?.into_iter().map(|(key, value)| Change::set(key, value));
            commit(cluster, &map, epoch, changes.collect(), out).await
        }
        C::Rm { map, keys, epoch, system } => {
            system.check(&map)?;
            commit(cluster, &map, epoch, keys.into_iter().map(Change::remove).collect(), out).await
        }
        C::Delete { map, epoch } => {
            let epoch = maps.delete(&map, epoch).await?;
            out.show(&json!({ "epoch": epoch }), || format!("epoch {epoch}"))
        }
        C::History { map, limit } => history(cluster, &map, limit, out).await,
        C::Watch { map, from } => while_read(watch(cluster, &map, from, out)).await,
    }
}

async fn commit(
    cluster: &Cluster,
    map: &MapName,
    epoch: Option<u64>,
    changes: Vec<Change>,
    out: Out,
) -> Result<()> {
    let epoch = match epoch {
        Some(epoch) => cluster.maps().commit(map, epoch, changes).await?,
        None => cluster.maps().apply(map, changes).await?,
    };
    out.show(&json!({ "epoch": epoch }), || format!("epoch {epoch}"))
}

fn show_map(state: &MapState, out: Out) -> Result<()> {
    let entries: serde_json::Map<String, Value> =
        state.entries.iter().map(|(key, value)| (key.clone(), json_bytes(value))).collect();
    out.show(&json!({ "epoch": state.epoch, "entries": entries }), || {
        let entries = state.entries.iter();
        let rows: Vec<_> =
            entries.map(|(key, value)| vec![key.clone(), text_bytes(value)]).collect();
        format!("epoch {}\n{}", state.epoch, table(&["key", "value"], &rows))
    })
}

/// Prints the last epochs, at most `limit`.
async fn history(cluster: &Cluster, map: &MapName, limit: usize, out: Out) -> Result<()> {
    let mut listing = Listing::lines(out, Limit::default());
    let epoch = cluster.maps().get(map).await?.epoch;
    let first = epoch.saturating_sub(limit as u64);
    let mut after = first;
    let mut first_kept = cluster.maps().history(map, 0, 0).await?.first_kept;
    while after < epoch {
        let page = cluster.maps().history(map, after, (epoch - after) as usize).await?;
        let Some(last) = page.records.last() else { break };
        if after > first && page.first_kept > after + 1 {
            note(SOME_ARE_GONE);
        }
        after = last.epoch;
        first_kept = page.first_kept;
        for record in page.records.iter().take_while(|record| record.epoch <= epoch) {
            listing.push(document_of(record), || line(text_of(record)))?;
        }
    }
    listing.finish((first_kept <= first).then_some(RAISE_LIMIT))
}

async fn watch(cluster: &Cluster, map: &MapName, from: Option<u64>, out: Out) -> Result<()> {
    let from = match from {
        Some(epoch) => epoch,
        None => cluster.maps().get(map).await?.epoch,
    };
    let mut watcher = cluster.maps().watch(map, from);
    loop {
        match watcher.next().await? {
            MapEvent::Epoch(record) => show_record(&record, out)?,
            MapEvent::Whole(state) => {
                let is_deleted = state.epoch > 0 && !cluster.maps().exists(map).await?;
                match is_deleted {
                    true => note("the map was deleted"),
                    false => note(&format!("{SOME_ARE_GONE}; this is the whole map")),
                }
                show_map(&state, out)?;
            }
        }
    }
}

fn show_record(record: &EpochRecord, out: Out) -> Result<()> {
    out.show(&document_of(record), || text_of(record))
}

fn document_of(record: &EpochRecord) -> Value {
    let changes: Vec<_> = record
        .changes
        .iter()
        .map(
            |change| json!({ "key": change.key(), "value": change.value().map(|v| json_bytes(v)) }),
        )
        .collect();
    json!({ "epoch": record.epoch, "at_micros": record.at_micros,
            "author": record.author.as_str(), "changes": changes })
}

fn text_of(record: &EpochRecord) -> String {
    let changes: Vec<_> = record
        .changes
        .iter()
        .map(|change| match (printable(change.key()), change.value()) {
            (key, Some(value)) => format!("{key}={}", text_bytes(value)),
            (key, None) => format!("{key} removed"),
        })
        .collect();
    let at = utc(record.at_micros);
    format!("{}  {at}  {}  {}", record.epoch, record.author, changes.join(", "))
}
