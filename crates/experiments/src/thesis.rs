//! The experiments of the thesis *Supporting Tail Latency SLOs in Ceph*, for simulated and measured
//! figures alike: three clients, three targets, the requests that each client sends, and the
//! latencies that it sees.
//!
//! The thesis does not say how fast its targets were. One target served one client of 1,400
//! requests a second and not two, and three clients of 1,000 overloaded it. So [`TARGET_RATE`]
//! requests a second are assumed, and an engine's rates are scaled to the speed of its targets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Random;
use nacre_qos::trace::{Trace, TraceLocation, TraceRecord};
use nacre_qos::{Estimator, IoKind};

use crate::figure_chart::FigureChart;

/// The storage targets.
pub const TARGETS: usize = 3;
/// The clients.
pub const CLIENTS: usize = 3;
/// The promised latency of each client (section 5.1), in seconds: the tighter, the higher the
/// priority.
pub const SLO_SECONDS: [f64; CLIENTS] = [0.3, 0.4, 0.5];
/// How many requests a second one target serves.
pub const TARGET_RATE: f64 = 2000.0;
/// The requests a second of each client in figures 9 and 10.
pub const OVERLOAD: [f64; CLIENTS] = [1000.0; CLIENTS];
/// In figures 11 and 12: client 1 bursts.
pub const BURST: [f64; CLIENTS] = [3000.0, 300.0, 300.0];
/// In figures 13 to 18.
pub const EQUAL: [f64; CLIENTS] = [1400.0; CLIENTS];
/// The estimators that the thesis compares.
pub const ESTIMATORS: [Estimator; 3] =
    [Estimator::PerTarget, Estimator::Optimistic, Estimator::Pessimistic];

/// The name of a client, counted from 0.
pub fn client_name(client: usize) -> String {
    format!("client {}", client + 1)
}

/// Where the requests of a trace go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceKind {
    /// To one target.
    Unbalanced,
    /// To all targets alike.
    Balanced,
}

impl TraceKind {
    /// Both, in the order of the figures.
    pub const ALL: [Self; 2] = [Self::Unbalanced, Self::Balanced];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unbalanced => "unbalanced",
            Self::Balanced => "balanced",
        }
    }

    /// How many of the three clients an estimator admits in the thesis (section 5.3); `None` if the
    /// thesis does not compare this estimator.
    pub fn admitted_in_thesis(self, estimator: Estimator) -> Option<usize> {
        match (self, estimator) {
            (_, Estimator::Uniform) => None,
            (_, Estimator::Optimistic) | (Self::Balanced, Estimator::PerTarget) => Some(CLIENTS),
            (_, Estimator::Pessimistic) | (Self::Unbalanced, Estimator::PerTarget) => Some(1),
        }
    }
}

/// Writes at random times (a Poisson process): on average so many a second, for so many seconds.
/// They go to the objects of these names in turn.
pub fn random_writes(
    random: &mut Random,
    (rate, seconds): (f64, f64),
    bytes: u32,
    names: Vec<Arc<str>>,
) -> Trace {
    let (mut at, mut records) = (0.0, vec![]);
    while at < seconds {
        let name = records.len() % names.len().max(1);
        records.push(TraceRecord {
            at: Duration::from_secs_f64(at),
            kind: IoKind::Write,
            bytes: bytes.into(),
            location: TraceLocation::Object { name },
        });
        let chance = (1 + random.below(1 << 53)) as f64 / (1u64 << 53) as f64;
        at -= chance.ln() / rate;
    }
    Trace { records, names, clock_step: Duration::from_nanos(1) }
}

/// The requests of each client: when each was due, and its latency, both in seconds.
#[derive(Debug, Clone, Default)]
pub struct ClientLatencies([Vec<(f64, f64)>; CLIENTS]);

impl ClientLatencies {
    /// Adds a request of a client.
    pub fn push(&mut self, client: usize, due_seconds: f64, latency_seconds: f64) {
        self.0[client].push((due_seconds, latency_seconds));
    }

    /// How many requests a client sent.
    pub fn requests(&self, client: usize) -> usize {
        self.0[client].len()
    }

    /// The latency in seconds that this part of a client's requests does not exceed; 0 if there are
    /// no requests.
    pub fn percentile(&self, client: usize, part: f64) -> f64 {
        percentile(self.0[client].iter().map(|(_, latency)| *latency).collect(), part)
    }

    /// How many requests of a client took longer than its SLO.
    pub fn late(&self, client: usize, slo_seconds: f64) -> usize {
        self.0[client].iter().filter(|(_, latency)| *latency > slo_seconds).count()
    }

    /// The same in percent of the client's requests.
    pub fn late_percent(&self, client: usize, slo_seconds: f64) -> f64 {
        let late = self.late(client, slo_seconds) as f64;
        100.0 * late / self.requests(client).max(1) as f64
    }

    /// A chart with the p99 of each client in each second.
    pub fn chart(&self, name: &str, title: &str) -> FigureChart {
        let mut chart = FigureChart::new(name, title, ("seconds", "p99 in ms", "tenant"));
        for (client, requests) in self.0.iter().enumerate() {
            let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (due, latency) in requests {
                seconds.entry(*due as u64).or_default().push(*latency);
            }
            for (second, latencies) in seconds {
                chart.push(second, 1e3 * percentile(latencies, 0.99), &client_name(client));
            }
        }
        chart
    }
}

fn percentile(mut latencies: Vec<f64>, part: f64) -> f64 {
    latencies.sort_unstable_by(f64::total_cmp);
    let at = (latencies.len() as f64 * part).ceil() as usize;
    latencies.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_its_rate_and_visits_its_objects_in_turn() {
        let names: Vec<Arc<str>> = ["a", "b"].map(Arc::from).into();
        let trace = random_writes(&mut Random::seeded(1), (1000.0, 10.0), 4096, names);
        let count = trace.records.len() as f64;
        assert!((count - 10_000.0).abs() < 500.0, "{count}");
        assert!(trace.records.is_sorted_by_key(|record| record.at));
        let objects = trace.records.iter().take(3).filter_map(|record| trace.object(record, 1));
        assert_eq!(objects.collect::<Vec<_>>(), ["a", "b", "a"]);
    }

    #[test]
    fn a_request_is_late_if_it_took_longer_than_the_slo() {
        let mut latencies = ClientLatencies::default();
        for (due, latency) in [(0.5, 0.3), (1.0, 0.31), (1.5, 0.1), (2.0, 0.2)] {
            latencies.push(0, due, latency);
        }
        assert_eq!((latencies.late(0, 0.3), latencies.late_percent(0, 0.3)), (1, 25.0));
        assert_eq!(latencies.percentile(0, 0.75), 0.3);
        // One point for each second with requests.
        assert_eq!(latencies.chart("name", "title").rows.len(), 3);
    }
}
