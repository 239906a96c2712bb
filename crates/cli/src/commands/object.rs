//! `nacre object …`: the native operations, one sub-command each.

use bytes::Bytes;
use clap::Subcommand;
use nacre::{Cluster, Object};
use nacre_object::{MapEntry, ObjectId, ObjectName, ObjectStat, Result, SnapshotName};
use serde_json::json;
use std::path::PathBuf;

use crate::input::read_file;
use crate::out::{Out, json_bytes, printable, table, text_bytes, utc};

/// Names fetched at a time by `ls`.
const PAGE: usize = 1000;

/// Work with objects: POOL/OBJECT
#[derive(Debug, Subcommand)]
pub enum ObjectCommand {
    /// Replace an object's byte stream
    Put {
        object: ObjectId,
        /// The content; standard input if left out
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Print an object's byte stream, or a part of it
    Get {
        object: ObjectId,
        #[arg(long, default_value_t = 0)]
        offset: u64,
        /// Bytes to print; all if left out
        #[arg(long)]
        length: Option<u64>,
        /// Read it as it was at a snapshot
        #[arg(long)]
        at: Option<SnapshotName>,
    },
    /// Write bytes at an offset
    Write {
        object: ObjectId,
        #[arg(long)]
        offset: u64,
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Append bytes; prints the offset they went to
    Append {
        object: ObjectId,
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Cut or extend the byte stream
    Truncate {
        object: ObjectId,
        /// How long it then is, in bytes
        size: u64,
    },
    /// Make a range read as zeros
    Zero {
        object: ObjectId,
        offset: u64,
        /// Bytes
        length: u64,
    },
    /// Make an object exist
    Create {
        object: ObjectId,
        /// Fail if it exists
        #[arg(long)]
        exclusive: bool,
    },
    /// Remove objects
    #[command(alias = "remove")]
    Rm {
        #[arg(required = true)]
        objects: Vec<ObjectId>,
    },
    /// Size, time of change, version
    Stat { object: ObjectId },
    /// List a pool's objects
    #[command(alias = "list")]
    Ls {
        pool: String,
        /// Only names that start so
        #[arg(long, default_value = "")]
        prefix: String,
        /// At most so many
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Which target holds an object
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
    /// Print one
    Get { object: ObjectId, name: String },
    /// Set one
    Set { object: ObjectId, name: String, value: String },
    /// Remove one
    Rm { object: ObjectId, name: String },
    /// Print all
    Ls { object: ObjectId },
}

/// The map of an object
#[derive(Debug, Subcommand)]
pub enum ObjectMapCommand {
    /// Print a key's value
    Get { object: ObjectId, key: String },
    /// Set a key
    Set { object: ObjectId, key: String, value: String },
    /// Remove a key
    Rm { object: ObjectId, key: String },
    /// Print entries in key order
    Ls {
        object: ObjectId,
        /// Only keys that start so
        #[arg(long, default_value = "")]
        prefix: String,
        /// Only keys after this one
        #[arg(long, default_value = "")]
        after: String,
        /// At most so many
        #[arg(long, default_value_t = 1000)]
        limit: u32,
    },
}

/// Snapshots of an object
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Keep the object as it is
    Create { object: ObjectId, snapshot: SnapshotName },
    /// List them
    Ls { object: ObjectId },
    /// Drop one
    Rm { object: ObjectId, snapshot: SnapshotName },
    /// Make the object what it was
    Rollback { object: ObjectId, snapshot: SnapshotName },
    /// Make a new object of one; both names need the same {tag}
    Clone {
        object: ObjectId,
        snapshot: SnapshotName,
        /// The new object's name, in the same pool
        to: ObjectName,
    },
}

/// Runs one of them.
pub async fn run(command: ObjectCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use ObjectCommand as C;
    let open = async |id: ObjectId| cluster.object(&id).await;
    match command {
        C::Put { object, file } => open(object).await?.write_full(read_file(&file)?).await,
        C::Get { object, offset, length, at } => {
            let object = open(object).await?;
            let object = match at {
                Some(snapshot) => object.at(snapshot),
                None => object,
            };
            get(&object, offset, length, out).await
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
        C::Ls { pool, prefix, limit } => list(cluster, &pool, &prefix, limit, out).await,
        C::Locate { object } => {
            let target = cluster.locate(&object);
            out.show(&json!({ "target": target.as_str() }), || target.to_string())
        }
        C::Attr(command) => run_attribute(command, cluster, out).await,
        C::Map(command) => run_map(command, cluster, out).await,
        C::Snapshot(command) => run_snapshot(command, cluster, out).await,
    }
}

async fn get(object: &Object, offset: u64, length: Option<u64>, out: Out) -> Result<()> {
    /// Bytes fetched at a time.
    const CHUNK: u64 = 4 * 1024 * 1024;
    let mut at = offset;
    let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
    // One document holds all of it, which an object's bound bounds.
    let mut document = out.is_json().then(Vec::new);
    while at < end {
        let data = object.read(at, CHUNK.min(end - at)).await?;
        match &mut document {
            Some(document) => document.extend_from_slice(&data),
            None => out.bytes(&data)?,
        }
        at += data.len() as u64;
        if (data.len() as u64) < CHUNK {
            break;
        }
    }
    match document {
        Some(document) => out.show(&json!({ "data": json_bytes(&document) }), String::new),
        None => Ok(()),
    }
}

fn show_stat(stat: ObjectStat, out: Out) -> Result<()> {
    let ObjectStat { size, modified_micros, version } = stat;
    let value = json!({ "size": size, "modified_micros": modified_micros, "version": version });
    out.show(&value, || {
        let modified = utc(modified_micros);
        format!("size      {size}\nmodified  {modified}\nversion   {version}")
    })
}

async fn list(
    cluster: &Cluster,
    pool: &str,
    prefix: &str,
    limit: Option<usize>,
    out: Out,
) -> Result<()> {
    let pool = cluster.pool(pool).await?;
    let mut left = limit.unwrap_or(usize::MAX);
    let mut after = None;
    loop {
        let page = pool.list(after, prefix, PAGE.min(left)).await?;
        for name in &page.names {
            out.show(&json!({ "name": name.as_str() }), || printable(name.as_str()))?;
        }
        left -= page.names.len();
        after = page.names.last().cloned();
        if !page.more || left == 0 {
            return Ok(());
        }
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
        C::Set { object, name, value } => {
            cluster.object(&object).await?.set_attribute(&name, value).await
        }
        C::Rm { object, name } => cluster.object(&object).await?.remove_attribute(&name).await,
        C::Ls { object } => {
            let all = cluster.object(&object).await?.attributes().await?;
            show_entries(all.iter().map(|(name, value)| (name.as_bytes(), &value[..])), out)
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
        C::Set { object, key, value } => cluster.object(&object).await?.map_set(key, value).await,
        C::Rm { object, key } => cluster.object(&object).await?.map_remove(key).await,
        C::Ls { object, prefix, after, limit } => {
            let object = cluster.object(&object).await?;
            let entries = map_entries(&object, after.into(), prefix.into(), limit).await?;
            show_entries(entries.iter().map(|e| (&e.key[..], &e.value[..])), out)
        }
    }
}

/// As many entries as there are, up to a limit: each answer has what fits it.
async fn map_entries(
    object: &Object,
    mut after: Bytes,
    prefix: Bytes,
    limit: u32,
) -> Result<Vec<MapEntry>> {
    let mut found = vec![];
    loop {
        let left = limit - found.len() as u32;
        let range = object.map_range(after, prefix.clone(), left).await?;
        found.extend(range.entries);
        match found.last() {
            Some(last) if range.more && (found.len() as u32) < limit => after = last.key.clone(),
            _ => return Ok(found),
        }
    }
}

fn show_entries<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: Out) -> Result<()> {
    let entries: Vec<_> = entries.collect();
    if out.is_json() {
        for (key, value) in entries {
            let line = json!({ "key": json_bytes(key), "value": json_bytes(value) });
            out.show(&line, String::new)?;
        }
        return Ok(());
    }
    let rows: Vec<_> =
        entries.iter().map(|(key, value)| vec![text_bytes(key), text_bytes(value)]).collect();
    out.line(&table(&["key", "value"], &rows))
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
        C::Ls { object } => {
            for snapshot in cluster.object(&object).await?.snapshots().await? {
                out.show(&json!({ "snapshot": snapshot.as_str() }), || snapshot.to_string())?;
            }
            Ok(())
        }
    }
}
