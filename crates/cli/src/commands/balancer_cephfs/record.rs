//! `record`: writes the ranks' directories and loads at each tick into a file, for `replay` and
//! `simulate`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use nacre_balance::{Inputs, NodeRecord, RankLoad, TickRecord, Unit};
use nacre_cephfs::{CephFs, FsMap, Subtrees, meta_load_of, units_of};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use serde_json::json;

use super::FileSystemOptions;
use crate::input::seconds;
use crate::out::{Out, note};
use crate::signals::Interrupts;

/// The arguments of `nacre balancer cephfs record`
#[derive(Debug, clap::Args)]
pub struct RecordArguments {
    /// The file to write; it gets one line for each rank and tick (the time from one decision of
    /// the balancer to the next)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Seconds to record (default: until interrupted)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    #[command(flatten)]
    place: FileSystemOptions,
}

/// Records ticks.
///
/// # Errors
/// `Unavailable` if the file cannot be written, or a rank does not answer.
pub async fn run(arguments: RecordArguments, out: Out) -> Result<()> {
    let RecordArguments { file: path, seconds, place } = arguments;
    let fs = place.open().await?;
    let tick = fs.tick(&fs.map().await?).await?;
    let unwritable =
        |cause| Error::unavailable(format!("cannot write {}: {cause}", path.display()));
    let mut file = File::create(&path).map_err(unwritable)?;
    let clock = SystemClock::default();
    let end = seconds.map(|seconds| clock.monotonic() + Duration::from_secs_f64(seconds));
    note(&format!("recording {} every {tick:?}", fs.name()));
    let interrupts = Interrupts::hear()?;
    let interrupted = interrupts.first();
    tokio::pin!(interrupted);
    let mut ticks = 0;
    loop {
        let began = clock.monotonic();
        let number = clock.now_micros() / (tick.as_micros() as u64).max(1);
        let records = tokio::select! {
            records = records_of(&fs, number, clock.now_micros()) => records?,
            () = &mut interrupted => break,
        };
        for record in records {
            serde_json::to_writer(&file, &record).map_err(|cause| unwritable(cause.into()))?;
            file.write_all(b"\n").map_err(unwritable)?;
        }
        ticks += 1;
        let next = began + tick;
        if end.is_some_and(|end| next > end) {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(next.saturating_sub(clock.monotonic())) => {}
            () = &mut interrupted => break,
        }
    }
    let value = json!({ "file": path.display().to_string(), "ticks": ticks });
    out.show(&value, || format!("{ticks} ticks are in {}", path.display()))
}

/// What each rank does at a tick.
async fn records_of(fs: &CephFs, tick: u64, at_micros: u64) -> Result<Vec<NodeRecord>> {
    let map = fs.map().await?;
    let loads = fs.loads(&map).await?;
    let subtrees = Subtrees::of(&fs.tell(&map, 0, &["get", "subtrees"]).await?)?;
    let mut records = vec![];
    for rank in 0..map.ranks.len() {
        let dump = fs.tell(&map, rank, &["dump", "loads"]).await?;
        let units = units_of(&dump, &subtrees, rank);
        records.push(record_of(&map, rank, &loads, units, tick, at_micros));
    }
    Ok(records)
}

fn record_of(
    map: &FsMap,
    rank: usize,
    loads: &[RankLoad],
    units: Vec<Unit>,
    tick: u64,
    at_micros: u64,
) -> NodeRecord {
    let unit_loads = units.iter().map(|unit| meta_load_of(&unit.rates)).collect();
    let inputs = Inputs {
        tick,
        whoami: rank,
        ranks: loads.to_vec(),
        units,
        unit_loads,
        ..Inputs::default()
    };
    let policy = map.balancer.clone();
    let record = TickRecord { tick, at_micros, policy, inputs, ..TickRecord::default() };
    NodeRecord { node: loads[rank].node.clone(), record }
}
