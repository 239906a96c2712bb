//! `nacre slo replay`: sends the requests of recorded traces at their recorded times.
//!
//! The replay is open-loop: it sends each request when the request is due, even if earlier ones
//! have no answer yet. A latency counts from the time at which the request was due. So a stall of
//! the cluster adds to the latency of every request that was due during the stall.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use nacre::{Cluster, Object, Pool};
use nacre_clock::{Clock, SystemClock};
use nacre_load::{Answered, open_loop};
use nacre_object::limits::MAX_REQUEST_BYTES;
use nacre_object::{Error, PoolName, Result};
use nacre_qos::IoKind;
use nacre_qos::trace::{Trace, TraceFormat, TraceRecord};
use serde::Serialize;

use super::input::read_trace;
use super::{milliseconds, units};
use crate::out::{Out, note, table};

/// Objects that are written at a time before the replay begins.
const PREPARED_AT_ONCE: usize = 32;
/// Longer latencies are recorded as this one.
const MAX_LATENCY_MICROS: u64 = 600_000_000;
/// The span of one histogram of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Which traces, and where to
#[derive(Debug, clap::Args)]
pub struct ReplayArguments {
    /// The traces to replay; all begin at the same time
    #[arg(value_name = "TRACE", required = true)]
    trace_files: Vec<PathBuf>,
    /// The format of the traces (default: the one that the first line of each names): nacre,
    /// priority-meister, msr, tencent, alibaba, fio, blkparse
    #[arg(long)]
    format: Option<TraceFormat>,
    /// The pool of the objects
    #[arg(long, default_value = "data")]
    pool: PoolName,
    /// The size of the objects into which a traced volume is divided, such as 4194304 or 4M
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = units::size)]
    block_bytes: u64,
    /// Replay this many times as fast as recorded
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    speed: f64,
    /// Skip the preparation, which writes the objects that the traces read
    #[arg(long)]
    no_prepare: bool,
    /// Write the latencies in microseconds to this file, as a log in the format of HdrHistogram
    #[arg(long, value_name = "FILE")]
    hdr_log: Option<PathBuf>,
}

/// What comes of it.
#[derive(Debug, Serialize)]
struct Report {
    traces: Vec<TraceReport>,
    /// The longest time by which a request was sent late.
    longest_lag_seconds: f64,
}

#[derive(Debug, Serialize)]
struct TraceReport {
    trace: String,
    requests: usize,
    failed: usize,
    /// How many failed for which reason.
    failures: BTreeMap<String, usize>,
    seconds_p50: f64,
    seconds_p99: f64,
    seconds_p999: f64,
    seconds_max: f64,
}

/// Replays the traces, and shows what their requests saw.
pub(super) async fn replay(arguments: &ReplayArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let speed = arguments.speed;
    if !(speed.is_finite() && speed > 0.0) {
        return Err(Error::invalid(format!("{speed} is not a speed")).hint("give a number above 0"));
    }
    let pool = cluster.pool(arguments.pool.as_str()).await?;
    let mut traces = vec![];
    for path in &arguments.trace_files {
        let trace = read_trace(path, arguments.format)?;
        if trace.clock_step >= Duration::from_secs(1) {
            note(&format!(
                "the times of {} are whole seconds: requests come in bursts",
                path.display()
            ));
        }
        traces.push(Replayed::new(path, trace, &pool, arguments.block_bytes)?);
    }
    if !arguments.no_prepare {
        prepare(&traces).await?;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (began, began_micros) = (clock.monotonic(), clock.now_micros());
    let runs = traces.iter().map(|trace| trace.run(&clock, began, speed));
    let answered: Vec<_> = futures::future::try_join_all(runs).await?;
    if let Some(path) = &arguments.hdr_log {
        write_log(path, began_micros, &traces, &answered)?;
    }
    let reports = traces.iter().zip(&answered).map(|(trace, answered)| trace.report(answered));
    let lags = answered.iter().flatten().map(|one| one.lag);
    let report = Report {
        traces: reports.collect(),
        longest_lag_seconds: lags.max().unwrap_or_default().as_secs_f64(),
    };
    out.show(&report, || text(&report))
}

/// A trace and its objects.
struct Replayed {
    name: String,
    trace: Trace,
    /// By the name that the trace has for them.
    objects: BTreeMap<String, Object>,
    block_bytes: u64,
}

impl Replayed {
    fn new(path: &Path, trace: Trace, pool: &Pool, block_bytes: u64) -> Result<Self> {
        let name = path.display().to_string();
        let mut objects = BTreeMap::new();
        for record in &trace.records {
            if record.bytes > MAX_REQUEST_BYTES as u64 {
                let message = format!("the trace has a request of {} bytes", record.bytes);
                return Err(Error::invalid(message)
                    .on(&name)
                    .hint(format!("leave out requests of more than {MAX_REQUEST_BYTES} bytes")));
            }
            let object = trace.object(record, block_bytes).ok_or_else(|| {
                Error::invalid("the trace names no objects")
                    .on(&name)
                    .hint("use a trace with the object, or the volume and offset, of each request")
            })?;
            if let Entry::Vacant(place) = objects.entry(object) {
                let own = pool.object(place.key())?;
                place.insert(own);
            }
        }
        Ok(Self { name, trace, objects, block_bytes })
    }

    /// Where each object that is read has to reach.
    fn extents(&self) -> BTreeMap<&str, u64> {
        let mut extents: BTreeMap<&str, u64> = BTreeMap::new();
        for record in self.trace.records.iter().filter(|record| record.kind == IoKind::Read) {
            let object = self.trace.object(record, self.block_bytes).unwrap_or_default();
            let Some((name, _)) = self.objects.get_key_value(&object) else { continue };
            let end = self.trace.offset_in_object(record, self.block_bytes) + record.bytes;
            let extent = extents.entry(name).or_default();
            *extent = end.max(*extent);
        }
        extents
    }

    async fn run(
        &self,
        clock: &Arc<dyn Clock>,
        began: Duration,
        speed: f64,
    ) -> Result<Vec<Answered>> {
        let requests = self.trace.records.iter();
        let requests = requests.map(|record| (record.at.div_f64(speed), self.request(record)));
        open_loop(clock, began, requests).await
    }

    fn request(&self, record: &TraceRecord) -> impl Future<Output = Result<()>> + Send + use<> {
        let name = self.trace.object(record, self.block_bytes).unwrap_or_default();
        let object = self.objects.get(&name).cloned();
        let offset = self.trace.offset_in_object(record, self.block_bytes);
        let TraceRecord { kind, bytes, .. } = *record;
        async move {
            let object = object.ok_or_else(|| Error::not_found("the trace names no object"))?;
            match kind {
                IoKind::Read => object.read(offset, bytes).await.map(drop),
                IoKind::Write => object.write(offset, filler(bytes)).await,
            }
        }
    }

    fn report(&self, answered: &[Answered]) -> TraceReport {
        let mut latencies = histogram();
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        for one in answered {
            latencies.saturating_record(micros(one.latency));
            if let Some(kind) = one.failure {
                *failures.entry(kind.to_string()).or_default() += 1;
            }
        }
        let seconds = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e6;
        TraceReport {
            trace: self.name.clone(),
            requests: answered.len(),
            failed: failures.values().sum(),
            failures,
            seconds_p50: seconds(0.5),
            seconds_p99: seconds(0.99),
            seconds_p999: seconds(0.999),
            seconds_max: latencies.max() as f64 / 1e6,
        }
    }
}

fn filler(bytes: u64) -> Bytes {
    Bytes::from(vec![0x72; bytes as usize])
}

/// Writes all objects up to the end of the furthest read.
async fn prepare(traces: &[Replayed]) -> Result<()> {
    let mut work = vec![];
    for trace in traces {
        work.extend(trace.extents().into_iter().map(|(name, end)| (&trace.objects[name], end)));
    }
    let bytes: u64 = work.iter().map(|(_, end)| end).sum();
    if work.is_empty() {
        return Ok(());
    }
    note(&format!("writing {} objects with {bytes} bytes in all, to be read", work.len()));
    for some in work.chunks(PREPARED_AT_ONCE) {
        let written = some.iter().map(async |(object, end)| {
            let mut offset = 0;
            while offset < *end {
                let part = (end - offset).min(MAX_REQUEST_BYTES as u64 / 2);
                object.write(offset, filler(part)).await?;
                offset += part;
            }
            Ok::<(), Error>(())
        });
        futures::future::try_join_all(written).await?;
    }
    Ok(())
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(MAX_LATENCY_MICROS, 3).expect("3 significant digits are supported")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Writes one histogram for each trace and second, of the requests that were due in that second.
fn write_log(
    path: &Path,
    began_micros: u64,
    traces: &[Replayed],
    answered: &[Vec<Answered>],
) -> Result<()> {
    let failed = |cause: String| Error::unavailable(format!("{}: {cause}", path.display()));
    let mut file = BufWriter::new(File::create(path).map_err(|cause| failed(cause.to_string()))?);
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_micros(began_micros);
    let mut log = IntervalLogWriterBuilder::new()
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(&mut file, &mut serializer)
        .map_err(|cause| failed(cause.to_string()))?;
    for (trace, answered) in traces.iter().zip(answered) {
        let mut slices: BTreeMap<u64, Histogram<u64>> = BTreeMap::new();
        for one in answered {
            let slice = slices.entry(one.due.as_secs()).or_insert_with(histogram);
            slice.saturating_record(micros(one.latency));
        }
        // A tag has no comma, and no space.
        let tag = trace.name.replace([',', ' ', '\n', '\r'], "_");
        for (second, slice) in &slices {
            let at = Duration::from_secs(*second);
            log.write_histogram(slice, at, LOG_INTERVAL, Tag::new(&tag))
                .map_err(|cause| failed(format!("{cause:?}")))?;
        }
    }
    file.flush().map_err(|cause| failed(cause.to_string()))
}

fn text(report: &Report) -> String {
    let row = |trace: &TraceReport| {
        let failures = trace.failures.iter().map(|(kind, count)| format!("{count} {kind}"));
        vec![
            trace.trace.clone(),
            trace.requests.to_string(),
            milliseconds(trace.seconds_p50),
            milliseconds(trace.seconds_p99),
            milliseconds(trace.seconds_p999),
            milliseconds(trace.seconds_max),
            match trace.failed {
                0 => "none".to_owned(),
                _ => failures.collect::<Vec<_>>().join(", "),
            },
        ]
    };
    let rows: Vec<_> = report.traces.iter().map(row).collect();
    let header = ["trace", "requests", "p50", "p99", "p99.9", "max", "failed"];
    format!(
        "{}\nrequests were sent at most {} late",
        table(&header, &rows),
        milliseconds(report.longest_lag_seconds)
    )
}
