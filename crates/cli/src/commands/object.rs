//! `nacre object …`: the native operations, one sub-command each.

use bytes::Bytes;
use clap::Subcommand;
use nacre::{Cluster, MapReader, Object, Pool};
use nacre_object::{
    Error, MapEntry, ObjectId, ObjectName, ObjectStat, PoolName, Result, SnapshotName,
};
use serde_json::{Value, json};
use std::path::PathBuf;

use super::object_content::{self, Wanted};
use crate::entries::Entries;
use crate::input::read_file;
use crate::listing::{Limit, Listing, Row, line};
use crate::out::{Out, json_bytes, printable, text_bytes, utc};

/// Names fetched at a time by `ls`.
const PAGE: usize = 1000;
/// How to see more of a listing that is cut.
const GO_ON: &str = "raise --limit, or go on with --after and the last name listed";
const ENTRY_HEADER: &[&str] = &["key", "value"];

/// Work with objects: POOL/OBJECT
#[derive(Debug, Subcommand)]
pub enum ObjectCommand {
    /// Replace an object's byte stream
    Put {
        object: ObjectId,
        /// The file with the content (default: standard input)
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Print an object's byte stream, or a part of it
    Get {
        object: ObjectId,
        #[command(flatten)]
        wanted: Wanted,
        /// Read the object as it was at this snapshot
        #[arg(long)]
        at: Option<SnapshotName>,
    },
    /// Write the bytes of a file at an offset of the byte stream
    Write {
        object: ObjectId,
        /// Write at this offset of the byte stream, in bytes
        #[arg(long)]
        offset: u64,
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Append the bytes of a file to the byte stream; prints the offset of the first one
    Append {
        object: ObjectId,
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Set the byte stream's size: cut its end off, or extend it with zeros
    Truncate {
        object: ObjectId,
        /// The new size, in bytes
        size: u64,
    },
    /// Replace a range of the byte stream by zeros
    Zero {
        object: ObjectId,
        /// The offset at which the range begins, in bytes
        offset: u64,
        /// The length of the range, in bytes
        length: u64,
    },
    /// Create an empty object, if it does not exist yet
    Create {
        object: ObjectId,
        /// Fail if the object exists
        #[arg(long)]
        exclusive: bool,
    },
    /// Remove objects
    #[command(alias = "remove")]
    Rm {
        #[arg(required = true)]
        objects: Vec<ObjectId>,
    },
    /// Show an object's size, time of change and version
    Stat { object: ObjectId },
    /// List a pool's objects
    #[command(alias = "list")]
    Ls {
        pool: String,
        /// List only names that begin with this prefix
        #[arg(long, default_value = "")]
        prefix: String,
        /// List only names after this one, in byte order
        #[arg(long)]
        after: Option<ObjectName>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Print the target (the storage node, or on Ceph the gateway) that holds an object
    Locate { object: ObjectId },
    /// Attributes
    #[command(subcommand)]
    Attr(AttributeCommand),
    /// The sorted key-value map
    #[command(subcommand)]
    Map(ObjectMapCommand),
    /// Snapshots of one object
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
}

/// Attributes of an object
#[derive(Debug, Subcommand)]
pub enum AttributeCommand {
    /// Print the value of an attribute
    Get { object: ObjectId, name: String },
    /// Set attributes, all in one transaction
    Set {
        object: ObjectId,
        #[command(flatten)]
        entries: Entries,
    },
    /// Remove an attribute
    #[command(alias = "remove")]
    Rm { object: ObjectId, name: String },
    /// Print all attributes
    #[command(alias = "list")]
    Ls {
        object: ObjectId,
        #[command(flatten)]
        limit: Limit,
    },
}

/// The map of an object
#[derive(Debug, Subcommand)]
pub enum ObjectMapCommand {
    /// Print a key's value
    Get { object: ObjectId, key: String },
    /// Set keys, all in one transaction
    Set {
        object: ObjectId,
        #[command(flatten)]
        entries: Entries,
    },
    /// Remove a key
    #[command(alias = "remove")]
    Rm { object: ObjectId, key: String },
    /// Print entries in key order
    #[command(alias = "list")]
    Ls {
        object: ObjectId,
        /// List only keys that begin with this prefix
        #[arg(long, default_value = "")]
        prefix: String,
        /// List only keys after this one
        #[arg(long, default_value = "")]
        after: String,
        /// Read the map as it was at this snapshot
        #[arg(long)]
        at: Option<SnapshotName>,
        #[command(flatten)]
        limit: Limit,
    },
}

/// Snapshots of an object
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Take a snapshot of the object
    Create { object: ObjectId, snapshot: SnapshotName },
    /// List the snapshots of an object
    #[command(alias = "list")]
    Ls {
        object: ObjectId,
        #[command(flatten)]
        limit: Limit,
    },
    /// Remove a snapshot
    #[command(alias = "remove")]
    Rm { object: ObjectId, snapshot: SnapshotName },
    /// Restore the object to its state at a snapshot
    Rollback { object: ObjectId, snapshot: SnapshotName },
    /// Create a new object from a snapshot, in the same pool
    ///
    /// Both objects must be on the same target. This is certain if their names have the same part
    /// in braces, such as `{a}` in `{a}x` and `{a}y`.
    Clone {
        object: ObjectId,
        snapshot: SnapshotName,
        /// The new object's name, without the pool
        to: ObjectName,
    },
}

impl ObjectCommand {
    /// The objects that the command changes.
    fn changed(&self) -> Vec<&ObjectId> {
        use {
            AttributeCommand as A, ObjectCommand as C, ObjectMapCommand as M, SnapshotCommand as S,
        };
        match self {
            C::Put { object, .. }
            | C::Write { object, .. }
            | C::Append { object, .. }
            | C::Truncate { object, .. }
            | C::Zero { object, .. }
            | C::Create { object, .. }
            | C::Attr(A::Set { object, .. } | A::Rm { object, .. })
            | C::Map(M::Set { object, .. } | M::Rm { object, .. })
            | C::Snapshot(
                S::Create { object, .. }
                | S::Rm { object, .. }
                | S::Rollback { object, .. }
                | S::Clone { object, .. },
            ) => vec![object],
            C::Rm { objects } => objects.iter().collect(),
            C::Get { .. }
            | C::Stat { .. }
            | C::Ls { .. }
            | C::Locate { .. }
            | C::Attr(A::Get { .. } | A::Ls { .. })
            | C::Map(M::Get { .. } | M::Ls { .. })
            | C::Snapshot(S::Ls { .. }) => vec![],
        }
    }

    /// # Errors
    /// `Invalid` if the command would change an object in which nacre keeps its own state.
    fn check(&self) -> Result<()> {
        match self.changed().into_iter().find(|object| object.pool == PoolName::system()) {
            None => Ok(()),
            Some(object) => {
                let text = format!("{object} is one of nacre's own objects");
                Err(Error::invalid(text).hint(
                    "change maps with `nacre map`, programs with `nacre program`, logs with `nacre log`",
                ))
            }
        }
    }
}

/// Runs one of them.
pub async fn run(command: ObjectCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use ObjectCommand as C;
    command.check()?;
    let open = async |id: ObjectId| cluster.object(&id).await;
    match command {
        C::Put { object, file } => object_content::put(&open(object).await?, &file).await,
        C::Get { object, wanted, at } => {
            object_content::get(&at_snapshot(open(object).await?, at), wanted, out).await
        }
        C::Write { object, offset, file } => {
            open(object).await?.write(offset, read_file(&file)?).await
        }
        C::Append { object, file } => {
            let offset = open(object).await?.append(read_file(&file)?).await?;
            out.show(&json!({ "offset": offset }), || offset.to_string())
        }
        C::Truncate { object, size } => open(object).await?.truncate(size).await,
        C::Zero { object, offset, length } => open(object).await?.zero(offset, length).await,
        C::Create { object, exclusive } => open(object).await?.create(exclusive).await,
        C::Rm { objects } => {
            for id in objects {
                open(id).await?.remove().await?;
            }
            Ok(())
        }
        C::Stat { object } => show_stat(open(object).await?.stat().await?, out),
        C::Ls { pool, prefix, after, limit } => {
            list(&cluster.pool(&pool).await?, &prefix, after, Listing::lines(out, limit)).await
        }
        C::Locate { object } => {
            let target = cluster.locate(&object);
            out.show(&json!({ "target": target.as_str() }), || target.to_string())
        }
        C::Attr(command) => run_attribute(command, cluster, out).await,
        C::Map(command) => run_map(command, cluster, out).await,
        C::Snapshot(command) => run_snapshot(command, cluster, out).await,
    }
}

fn at_snapshot(object: Object, snapshot: Option<SnapshotName>) -> Object {
    match snapshot {
        Some(snapshot) => object.at(snapshot),
        None => object,
    }
}

fn show_stat(stat: ObjectStat, out: Out) -> Result<()> {
    let ObjectStat { size, modified_micros, version } = stat;
    let value = json!({ "size": size, "modified_micros": modified_micros, "version": version });
    out.show(&value, || {
        let (size, modified) = (out.size(size), utc(modified_micros));
        format!("size      {size}\nmodified  {modified}\nversion   {version}")
    })
}

async fn list(
    pool: &Pool,
    prefix: &str,
    mut after: Option<ObjectName>,
    mut listing: Listing,
) -> Result<()> {
    loop {
        let page = pool.list(after, prefix, PAGE.min(listing.room())).await?;
        for name in &page.names {
            let json = json!({ "name": name.as_str() });
            listing.push(json, || line(printable(name.as_str())))?;
        }
        if !page.more || listing.room() == 0 {
            return listing.finish(page.more.then_some(GO_ON));
        }
        after = page.names.last().cloned();
    }
}

fn show_value(value: &Bytes, out: Out) -> Result<()> {
    if out.is_json() {
        return out.show(&json!({ "value": json_bytes(value) }), String::new);
    }
    out.bytes(value)?;
    out.bytes(b"\n")
}

async fn run_attribute(command: AttributeCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use AttributeCommand as C;
    match command {
        C::Get { object, name } => {
            show_value(&cluster.object(&object).await?.attribute(&name).await?, out)
        }
        C::Set { object, entries } => {
            let object = cluster.object(&object).await?;
            let entries = entries.read_or_pair()?.into_iter();
            let set = entries.fold(object.transaction(), |transaction, (name, value)| {
                transaction.set_attribute(&name, value)
            });
            set.commit().await.map(drop)
        }
        C::Rm { object, name } => cluster.object(&object).await?.remove_attribute(&name).await,
        C::Ls { object, limit } => {
            let all = cluster.object(&object).await?.attributes().await?;
            let document = |(name, value): &(String, Bytes)| entry_document(name.as_bytes(), value);
            let row = |(name, value): &(String, Bytes)| entry_row(name.as_bytes(), value);
            Listing::table(out, limit, ENTRY_HEADER).all(all, document, row)
        }
    }
}

async fn run_map(command: ObjectMapCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use ObjectMapCommand as C;
    match command {
        C::Get { object, key } => {
            let value = cluster.object(&object).await?.map_get(key.clone()).await?;
            let missing = || nacre_object::Error::not_found(format!("no key {key:?}")).on(&object);
            show_value(&value.ok_or_else(missing)?, out)
        }
        C::Set { object, entries } => {
            let object = cluster.object(&object).await?;
            let entries = entries.read_or_pair()?.into_iter();
            let set = entries.fold(object.transaction(), |transaction, (key, value)| {
                transaction.map_set(key, value)
            });
            set.commit().await.map(drop)
        }
        C::Rm { object, key } => cluster.object(&object).await?.map_remove(key).await,
        C::Ls { object, prefix, after, at, limit } => {
            let object = at_snapshot(cluster.object(&object).await?, at);
            let listing = Listing::table(out, limit, ENTRY_HEADER);
            list_entries(object.map_reader(after, prefix), listing).await
        }
    }
}

/// Lists entries page by page, all of one version of the object.
async fn list_entries(mut entries: MapReader, mut listing: Listing) -> Result<()> {
    let mut has_more = false;
    while let Some(page) = entries.next(listing.room()).await? {
        for MapEntry { key, value } in &page.entries {
            listing.push(entry_document(key, value), || entry_row(key, value))?;
        }
        listing.end_page()?;
        has_more = page.more;
        if listing.room() == 0 {
            break;
        }
    }
    listing.finish(has_more.then_some(GO_ON))
}

fn entry_document(key: &[u8], value: &[u8]) -> Value {
    json!({ "key": json_bytes(key), "value": json_bytes(value) })
}

fn entry_row(key: &[u8], value: &[u8]) -> Vec<Row> {
    vec![vec![text_bytes(key), text_bytes(value)]]
}

async fn run_snapshot(command: SnapshotCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use SnapshotCommand as C;
    match command {
        C::Create { object, snapshot } => cluster.object(&object).await?.snapshot(snapshot).await,
        C::Rm { object, snapshot } => {
            cluster.object(&object).await?.remove_snapshot(snapshot).await
        }
        C::Rollback { object, snapshot } => cluster.object(&object).await?.rollback(snapshot).await,
        C::Clone { object, snapshot, to } => {
            let target = ObjectId::new(object.pool, to);
            cluster.object(&target).await?.clone_from_snapshot(object.name, snapshot).await
        }
        C::Ls { object, limit } => Listing::lines(out, limit).all(
            cluster.object(&object).await?.snapshots().await?,
            |snapshot| json!({ "snapshot": snapshot.as_str() }),
            |snapshot| line(snapshot.as_str()),
        ),
    }
}
