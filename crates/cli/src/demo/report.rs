//! What the demo prints at the end.

use std::time::Duration;

use serde::Serialize;

use super::timeline::{Ack, Latency, longest_silence};
use super::verify::Verdict;
use crate::out::table;

/// Something done to the cluster while the writers ran.
#[derive(Debug, Clone)]
pub struct Event {
    /// What.
    pub what: String,
    /// When it began, since the start of the run.
    pub at: Duration,
}

/// Appends over a span of the run.
#[derive(Debug, Serialize)]
struct Phase {
    what: String,
    records: usize,
    records_per_second: f64,
    latency: Latency,
    /// The longest time without any acknowledgement.
    seconds_without_service: f64,
}

/// The whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    records: usize,
    bytes: usize,
    writers: usize,
    seconds: f64,
    records_per_second: f64,
    latency: Latency,
    read_records_per_second: f64,
    phases: Vec<Phase>,
    verdict: Verdict,
}

/// What the report is made of.
#[derive(Debug)]
pub struct Run<'a> {
    /// Bytes of all records.
    pub bytes: usize,
    /// The acknowledgements that each writer got.
    pub told: &'a [Vec<Ack>],
    /// What was done meanwhile, in order.
    pub events: &'a [Event],
    /// When the first append could be issued.
    pub started: Duration,
    /// How long reading everything back took.
    pub reading: Duration,
    /// What the comparison said.
    pub verdict: Verdict,
}

impl Report {
    /// Works the figures out.
    pub fn new(run: Run<'_>) -> Self {
        let mut acks: Vec<Ack> = run.told.iter().flatten().copied().collect();
        acks.sort_by_key(|ack| ack.acked);
        let ended = acks.last().map_or(run.started, |ack| ack.acked);
        let seconds = (ended - run.started).as_secs_f64();
        let mut spans = vec![("undisturbed".to_owned(), run.started)];
        spans.extend(run.events.iter().map(|event| (event.what.clone(), event.at)));
        let ends = spans.iter().skip(1).map(|span| span.1).chain([ended]);
        let phases = spans
            .iter()
            .zip(ends)
            .map(|((what, from), until)| Phase::new(what, &acks, *from, until))
            .collect();
        Self {
            records: acks.len(),
            bytes: run.bytes,
            writers: run.told.len(),
            seconds,
            records_per_second: rate(acks.len(), seconds),
            latency: Latency::of(acks.iter()),
            read_records_per_second: rate(run.verdict.found, run.reading.as_secs_f64()),
            phases,
            verdict: run.verdict,
        }
    }

    /// The table for people, without the last line.
    pub fn table(&self) -> String {
        let row = |what: &str, records: usize, per_second: f64, latency: &Latency, silent: f64| {
            vec![
                what.to_owned(),
                records.to_string(),
                format!("{per_second:.0}"),
                millis(latency.seconds_p50),
                millis(latency.seconds_p99),
                millis(latency.seconds_p999),
                millis(latency.seconds_max),
                millis(silent),
            ]
        };
        let mut rows: Vec<_> = self
            .phases
            .iter()
            .map(|p| {
                row(&p.what, p.records, p.records_per_second, &p.latency, p.seconds_without_service)
            })
            .collect();
        let silent = self.phases.iter().map(|p| p.seconds_without_service).fold(0.0, f64::max);
        let per_second = self.records_per_second;
        rows.push(row("whole run", self.records, per_second, &self.latency, silent));
        let header = [
            "phase",
            "records",
            "records/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "silent ms",
        ];
        format!(
            "{} records, {} bytes, {} writers, one record an append, in {:.2} s; \
             read back at {:.0} records/s\n\n{}\n\n\
             silent: the longest time in which no append of any writer was acknowledged",
            self.records,
            self.bytes,
            self.writers,
            self.seconds,
            self.read_records_per_second,
            table(&header, &rows)
        )
    }

    /// The last line: what was proven, or what was not.
    pub fn last_line(&self) -> String {
        let v = &self.verdict;
        let word = if v.holds() { "verified" } else { "NOT verified" };
        format!(
            "{word}: {} records acknowledged, {} read back once and equal, in position order; \
             {} missing, {} doubled, {} out of order ({} holes filled)",
            v.acknowledged, v.found, v.missing, v.doubled, v.out_of_order, v.holes
        )
    }

    /// What the comparison said.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

impl Phase {
    /// The phase of the appends acknowledged in `from..until`. `acks` is sorted by the time of
    /// acknowledgement.
    fn new(what: &str, acks: &[Ack], from: Duration, until: Duration) -> Self {
        let start = acks.partition_point(|ack| ack.acked < from);
        let end = acks.partition_point(|ack| ack.acked < until);
        let acked: Vec<_> = acks.iter().map(|ack| ack.acked).collect();
        let within = &acks[start..end];
        Self {
            what: what.to_owned(),
            records: within.len(),
            records_per_second: rate(within.len(), (until.saturating_sub(from)).as_secs_f64()),
            latency: Latency::of(within.iter()),
            seconds_without_service: longest_silence(&acked, from, until).as_secs_f64(),
        }
    }
}

fn rate(count: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn millis(seconds: f64) -> String {
    format!("{:.2}", seconds * 1e3)
}
