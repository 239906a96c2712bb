//! `nacre log …`: shared logs, made for pipes.

use std::time::Duration;

use clap::Subcommand;
use futures::StreamExt;
use nacre::{ClientRouting, Cluster, Entry, Log, LogOptions, LogStat, ReadSlot};
use nacre_object::{ClassName, Error, ErrorKind, NodeName, PoolName, ProgramName, Result};
use serde_json::json;
use tokio::time::sleep;

use super::log_append::{AppendArguments, append};
use crate::listing::{Limit, Listing, RAISE_LIMIT, line};
use crate::out::{Out, json_bytes, note, table};
use crate::reader::while_read;

/// Positions asked for at a time by `read`.
const READ_PAGE: usize = 1024;
/// Lost positions that are farther apart than this are reported separately.
const LOST_APART: u64 = 1024;
/// A follower whose cluster does not answer asks again after this.
const FOLLOW_AGAIN: Duration = Duration::from_millis(500);

/// Work with shared logs: totally ordered records that many clients append to
///
/// A log's view says which objects store the records, and which node issues the positions: the node
/// of the log's sequencer.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Create a log
    Create {
        log: String,
        /// Number of objects over which records are spread (default: one on each storage target)
        #[arg(long)]
        width: Option<u32>,
        /// Number of records that one object stores
        #[arg(long, default_value_t = LogOptions::default().slots)]
        slots: u32,
        /// The class that stores the records in objects: `log` (in Lua), `log_brados` (in Brados)
        /// or `log_native` (compiled into nacre)
        #[arg(long, default_value_t = LogOptions::default().class)]
        class: ClassName,
        /// The pool of the log's objects
        #[arg(long, default_value_t = LogOptions::default().pool)]
        pool: PoolName,
        /// An active program capability/PROGRAM, which decides which client may issue the log's
        /// positions itself (default: a client that is alone, until another one asks)
        #[arg(long, value_name = "PROGRAM")]
        capability: Option<String>,
    },
    /// List the logs
    #[command(alias = "list")]
    Ls(Limit),
    /// Remove a log and every record of it
    #[command(alias = "remove")]
    Rm { log: String },
    /// Append the lines of a file, each as a record, in order
    Append(AppendArguments),
    /// Print records, one a line: all records, or the record at one position
    Read {
        log: String,
        position: Option<u64>,
        /// Begin at this position
        #[arg(long, conflicts_with = "position", default_value_t = 0)]
        from: u64,
        /// Read at most N positions (default: all)
        #[arg(long, conflicts_with = "position", value_name = "N")]
        limit: Option<u64>,
        /// Print each record's position before it
        #[arg(long)]
        positions: bool,
    },
    /// Print records as they are appended, until interrupted
    Follow {
        log: String,
        /// Begin at this position
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Begin with the next record that is appended, not with the first of the log
        #[arg(long, conflicts_with = "from")]
        new: bool,
        /// Print each record's position before it
        #[arg(long)]
        positions: bool,
    },
    /// Print the position of the next record
    Tail { log: String },
    /// Fill a position without a record, so that no record can get it and readers skip it
    Fill { log: String, position: u64 },
    /// Remove a record, or with `--to` all records up to it
    Trim {
        log: String,
        position: u64,
        /// Remove all records before the position, too
        #[arg(long)]
        to: bool,
    },
    /// Seal the log: refuse all requests of earlier epochs, and find the tail again
    Seal { log: String },
    /// Move the log's sequencer, which issues positions, to another metadata node; clients can
    /// append meanwhile
    Move {
        log: String,
        /// The node, as `nacre status` names it
        node: NodeName,
        /// Let the former node forward the requests of its clients, instead of telling them the new
        /// node
        #[arg(long)]
        proxy: bool,
    },
    /// Choose the program that decides which client may issue the log's positions itself, and for
    /// how long
    Set {
        log: String,
        /// An active program capability/PROGRAM; or `none`: a client that is alone may issue
        /// positions, until another one asks
        #[arg(long, value_name = "PROGRAM")]
        capability: String,
    },
    /// Show which objects store a log's records, and which node issues its positions
    Stat { log: String },
}

/// Runs one of them.
pub async fn run(command: LogCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use LogCommand as C;
    match command {
        C::Create { log, width, slots, class, pool, capability } => {
            let options = LogOptions { pool, class, width, slots };
            let capability =
                capability.map(|name| capability_program(&name)).transpose()?.flatten();
            if let Some(program) = &capability {
                cluster.check_capability_program(program).await?;
            }
            cluster.create_log(&log, options).await?;
            match capability {
                None => Ok(()),
                program => cluster.set_log_capability(&log, program).await,
            }
        }
        C::Ls(limit) => Listing::lines(out, limit).all(
            cluster.logs().await?,
            |log| json!({ "log": log.as_str() }),
            |log| line(log.as_str()),
        ),
        C::Rm { log } => cluster.remove_log(&log).await,
        C::Append(arguments) => append(&cluster.log(&arguments.log).await?, arguments, out).await,
        C::Read { log, position: Some(position), positions, .. } => {
            let log = cluster.log(&log).await?;
            let entry = log.read(position).await?;
            match &entry {
                Entry::Data(_) => show(position, &entry, positions, out),
                _ if out.is_json() => show(position, &entry, positions, out),
                Entry::Lost => Err(lost(
                    &log,
                    &format!("position {position} was lost with its storage target"),
                )),
                _ => Err(Error::not_found(format!("position {position} is {}", state(&entry)))),
            }
        }
        C::Read { log, from, limit, positions, .. } => {
            read(&cluster.log(&log).await?, from, limit, positions, out).await
        }
        C::Follow { log, from, new, positions } => {
            let log = cluster.log(&log).await?;
            let from = if new { log.tail().await? } else { from };
            while_read(follow(&log, from, positions, out)).await
        }
        C::Tail { log } => {
            let tail = cluster.log(&log).await?.tail().await?;
            out.show(&json!({ "tail": tail }), || tail.to_string())
        }
        C::Move { log, node, proxy } => {
            let routing = if proxy { ClientRouting::Forward } else { ClientRouting::Redirect };
            cluster.log(&log).await?.hand_over_sequencer(node, routing).await
        }
        C::Set { log, capability } => {
            cluster.set_log_capability(&log, capability_program(&capability)?).await
        }
        C::Fill { log, position } => cluster.log(&log).await?.fill(position).await,
        C::Trim { log, position, to: false } => cluster.log(&log).await?.trim(position).await,
        C::Trim { log, position, to: true } => cluster.log(&log).await?.trim_to(position).await,
        C::Seal { log } => {
            let tail = cluster.log(&log).await?.seal().await?;
            out.show(&json!({ "tail": tail }), || format!("sealed; the tail is {tail}"))
        }
        C::Stat { log } => {
            let log = cluster.log(&log).await?;
            stat(&log.stat().await?, first_readable(&log).await?, out)
        }
    }
}

/// Prints records in order. The text output skips positions without data.
///
/// # Errors
/// `Conflict` if the log was trimmed past the first printed record during the read; `Corrupt` if
/// positions were lost. Both come after the records have been printed.
async fn read(log: &Log, from: u64, limit: Option<u64>, positions: bool, out: Out) -> Result<()> {
    let end = limit.map_or(u64::MAX, |limit| from.saturating_add(limit));
    let mut listing = Listing::lines(out, Limit::default());
    let (mut gap, mut lost) = (Gap::default(), LostPositions::default());
    let mut at = from;
    while at < end {
        let page = log.read_range(at, READ_PAGE.min((end - at) as usize)).await?;
        let Some(last) = page.last() else { break };
        at = last.position + 1;
        for slot in &page {
            gap.pass(slot);
            lost.pass(slot);
            match &slot.entry {
                _ if out.is_json() => {
                    listing.push(document(slot.position, slot.entry.as_ref()), Vec::new)?
                }
                Some(entry) => show(slot.position, entry, positions, out)?,
                None => {}
            }
        }
    }
    let has_more = at >= end && !log.read_range(end, 1).await?.is_empty();
    listing.finish(has_more.then_some(RAISE_LIMIT))?;
    gap.check(log).await?;
    lost.check(log)
}

/// What a read has seen of trimming.
#[derive(Debug, Default)]
struct Gap {
    /// The first position that held data.
    first_data: Option<u64>,
    /// A trimmed position after it.
    trimmed: Option<u64>,
}

impl Gap {
    fn pass(&mut self, slot: &ReadSlot) {
        match slot.entry {
            Some(Entry::Data(_)) => {
                self.first_data.get_or_insert(slot.position);
            }
            Some(Entry::Trimmed) if self.first_data.is_some() => {
                self.trimmed.get_or_insert(slot.position);
            }
            _ => {}
        }
    }

    /// # Errors
    /// `Conflict` if the log was trimmed during the read: the read found a trimmed position after
    /// its first record, and that record is now trimmed, too.
    async fn check(&self, log: &Log) -> Result<()> {
        let (Some(first), Some(trimmed)) = (self.first_data, self.trimmed) else { return Ok(()) };
        match log.read(first).await? {
            Entry::Trimmed => {
                let text = format!(
                    "the log was trimmed while it was read: positions from {trimmed} on are missing"
                );
                Err(Error::conflict(text).during("read").on(log.name()).hint("read it again"))
            }
            _ => Ok(()),
        }
    }
}

/// The positions that a read found to be lost.
#[derive(Debug, Default)]
struct LostPositions {
    count: u64,
    first: u64,
    last: u64,
}

impl LostPositions {
    fn pass(&mut self, slot: &ReadSlot) {
        if slot.entry == Some(Entry::Lost) {
            if self.count == 0 {
                self.first = slot.position;
            }
            self.count += 1;
            self.last = slot.position;
        }
    }

    /// # Errors
    /// `Corrupt` if there is one.
    fn check(&self, log: &Log) -> Result<()> {
        let Self { count, first, last } = self;
        match count {
            0 => Ok(()),
            1 => Err(lost(log, &format!("position {first} was lost with its storage target"))),
            _ => {
                let text = format!(
                    "{count} positions, from {first} to {last}, were lost with their storage target"
                );
                Err(lost(log, &text))
            }
        }
    }
}

/// The error of a read that found positions lost. `text` says which.
fn lost(log: &Log, text: &str) -> Error {
    Error::corrupt(text)
        .during("read")
        .on(log.name())
        .hint("find the lost positions with `--json`; all other positions can be read, and records can be appended")
}

/// An entry for programs; unwritten ones included.
fn document(position: u64, entry: Option<&Entry>) -> serde_json::Value {
    match entry {
        None => json!({ "position": position, "state": "unwritten" }),
        Some(entry) => {
            let data = match entry {
                Entry::Data(data) => json_bytes(data),
                _ => serde_json::Value::Null,
            };
            json!({ "position": position, "state": state(entry), "data": data })
        }
    }
}

/// Prints records as they are appended, and returns only on an error. It waits while the cluster
/// does not answer.
async fn follow(log: &Log, from: u64, positions: bool, out: Out) -> Result<()> {
    let mut entries = log.follow(from);
    let (mut is_waiting, mut lost_at) = (false, None::<u64>);
    while let Some(next) = entries.next().await {
        match next {
            Ok((position, entry)) => {
                is_waiting = false;
                if entry == Entry::Lost {
                    // Lost positions alternate with others, because each object stores only every
                    // second or third position.
                    if lost_at.is_none_or(|at| position - at > LOST_APART) {
                        note(&format!(
                            "some records from position {position} on were lost with their storage target"
                        ));
                    }
                    lost_at = Some(position);
                }
                show(position, &entry, positions, out)?;
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                if !std::mem::replace(&mut is_waiting, true) {
                    note(&format!("waiting for the cluster: {error}"));
                }
                sleep(FOLLOW_AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Prints a record as it is. Entries without a record are left out, except in JSON.
fn show(position: u64, entry: &Entry, positions: bool, out: Out) -> Result<()> {
    match entry {
        _ if out.is_json() => out.show(&document(position, Some(entry)), String::new),
        Entry::Data(data) => {
            let lead = if positions { format!("{position}\t") } else { String::new() };
            out.bytes(&[lead.as_bytes(), data, b"\n"].concat())
        }
        _ => Ok(()),
    }
}

fn state(entry: &Entry) -> &'static str {
    match entry {
        Entry::Data(_) => "data",
        Entry::Filled => "filled",
        Entry::Trimmed => "trimmed",
        Entry::Lost => "lost",
    }
}

/// The first position that can be read; `None` while an object that knows it does not answer.
async fn first_readable(log: &Log) -> Result<Option<u64>> {
    match log.first_readable().await {
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(None),
        found => found.map(Some),
    }
}

/// Parses the name of a capability program, with or without the prefix `capability/`. `None` means
/// best effort.
fn capability_program(name: &str) -> Result<Option<ProgramName>> {
    match name {
        "none" => Ok(None),
        name => ProgramName::new(name.strip_prefix("capability/").unwrap_or(name)).map(Some),
    }
}

fn stat(stat: &LogStat, first_readable: Option<u64>, out: Out) -> Result<()> {
    let sequencer = stat.sequencer.as_ref().map(ToString::to_string);
    let capability = stat.capability.as_ref().map(ToString::to_string);
    let value = json!({ "epoch": stat.epoch, "tail": stat.tail, "kept_from": stat.kept_from,
        "first_readable": first_readable,
        "sequencer": sequencer, "class": stat.class.as_str(), "capability": capability, "width": stat.width,
        "slots": stat.slots, "ranges": stat.ranges, "objects": stat.objects });
    out.show(&value, || {
        let rows = [
            ("epoch", stat.epoch.to_string()),
            ("tail", stat.tail.to_string()),
            ("first readable", first_readable.map_or("not known now".into(), |at| at.to_string())),
            ("kept from", stat.kept_from.to_string()),
            ("sequencer", sequencer.clone().unwrap_or_else(|| "none yet".into())),
            ("class", stat.class.to_string()),
            ("capability", capability.clone().unwrap_or_else(|| "best effort".into())),
            ("width", stat.width.to_string()),
            ("slots", stat.slots.to_string()),
            ("ranges", stat.ranges.to_string()),
            ("objects", stat.objects.to_string()),
        ];
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
        table(&["log", ""], &rows)
    })
}
