//! `CephFsReport`: the result of a figure on CephFS, which is stored as JSON. The figure's charts
//! are drawn from this report alone.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_cephfs::RankCounters;
use serde::{Deserialize, Serialize};

use crate::figure_chart::{FigureChart, rounded};
use crate::report::Spread;
use crate::stored_report::{Measurement, StoredReport};

/// What came of a figure on CephFS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CephFsReport {
    /// What was measured, when and where.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// Of its metadata servers.
    pub ceph_version: String,
    /// How many operations of the Mantle paper stand for one operation here.
    pub scale_down: u32,
    /// The settings of the clusters.
    pub settings: Vec<String>,
    /// What policies lose on CephFS, by policy.
    pub lost: BTreeMap<String, Vec<String>>,
    /// The values of the Mantle paper, each with the measured value.
    pub findings: Vec<MeasuredFinding>,
    /// All that was measured.
    pub trials: Vec<MeasuredTrial>,
    /// What is drawn.
    pub charts: Vec<FigureChart>,
}

/// A value of the Mantle paper, and the measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFinding {
    /// Of what.
    pub finding: String,
    /// Of all numbers.
    pub unit: String,
    /// The value in the Mantle paper; `None` if the paper gives none.
    pub paper: Option<f64>,
    /// What was measured, round by round.
    pub measured: Spread,
}

/// A trial with its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredTrial {
    /// What was tried.
    pub name: String,
    /// Metadata servers that are active.
    pub ranks: usize,
    /// Clients, each with a mount of its own.
    pub clients: usize,
    /// In order.
    pub rounds: Vec<TrialRound>,
}

/// A round of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRound {
    /// Until the last client was done.
    pub seconds: f64,
    /// Operations of all clients.
    pub operations: u64,
    /// Of an operation.
    pub latency: Latency,
    /// What each rank has counted in this time.
    pub ranks: Vec<RankCounters>,
    /// The same at several seconds of the round.
    #[serde(skip)]
    pub samples: Vec<(f64, Vec<RankCounters>)>,
}

/// How long operations took, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Their mean.
    pub mean_micros: f64,
    /// Their standard deviation.
    pub deviation_micros: f64,
    /// Their 99th percentile.
    pub p99_micros: f64,
}

impl Latency {
    /// Of these operations.
    pub fn of(latencies: Vec<Duration>) -> Self {
        let mut micros: Vec<_> = latencies.iter().map(|it| it.as_secs_f64() * 1e6).collect();
        micros.sort_by(f64::total_cmp);
        let count = micros.len().max(1) as f64;
        let mean = micros.iter().sum::<f64>() / count;
        let variance = micros.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let p99 = micros.get(micros.len() * 99 / 100).copied().unwrap_or(0.0);
        Self {
            mean_micros: rounded(mean),
            deviation_micros: rounded(variance.sqrt()),
            p99_micros: rounded(p99),
        }
    }
}

impl TrialRound {
    /// The counters of all ranks together.
    pub fn total(&self) -> RankCounters {
        self.ranks.iter().copied().reduce(RankCounters::plus).unwrap_or_default()
    }

    /// Operations a second.
    pub fn throughput(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// The share of each rank in all answered requests.
    pub fn shares(&self) -> Vec<f64> {
        let all = self.total().replies.max(1) as f64;
        self.ranks.iter().map(|rank| rank.replies as f64 / all).collect()
    }

    /// Requests that each rank answered a second, from one sample to the next.
    pub fn replies_per_second(&self) -> Vec<(f64, Vec<f64>)> {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let rate = |((from, before), (to, after)): (&(f64, Vec<RankCounters>), &(f64, Vec<_>))| {
            let rates = after.iter().zip(before).map(|(now, then): (&RankCounters, _)| {
                now.since(*then).replies as f64 / (to - from)
            });
            (*to, rates.collect())
        };
        pairs.map(rate).collect()
    }
}

impl MeasuredTrial {
    /// Something of each round.
    pub fn spread(&self, of: impl Fn(&TrialRound) -> f64) -> Spread {
        Spread::exactly(self.rounds.iter().map(|round| rounded(of(round))).collect())
    }

    /// The median of something.
    pub fn median(&self, of: impl Fn(&TrialRound) -> f64) -> f64 {
        self.spread(of).median
    }
}

impl MeasuredFinding {
    /// A value of the Mantle paper beside the measured value.
    pub fn new(
        finding: impl Into<String>,
        unit: &str,
        paper: impl Into<Option<f64>>,
        measured: Spread,
    ) -> Self {
        Self { finding: finding.into(), unit: unit.to_owned(), paper: paper.into(), measured }
    }
}

impl StoredReport for CephFsReport {}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(replies: u64) -> RankCounters {
        RankCounters { replies, ..RankCounters::default() }
    }

    #[test]
    fn a_round_gives_the_shares_and_rates_of_its_ranks() {
        let round = TrialRound {
            seconds: 2.0,
            operations: 40,
            latency: Latency::default(),
            ranks: vec![counted(30), counted(10)],
            samples: vec![
                (0.5, vec![counted(5), counted(0)]),
                (1.0, vec![counted(15), counted(2)]),
            ],
        };
        assert_eq!(round.shares(), [0.75, 0.25]);
        assert_eq!(round.throughput(), 20.0);
        assert_eq!(round.replies_per_second(), [(1.0, vec![20.0, 4.0])]);
    }

    #[test]
    fn a_latency_has_a_mean_and_a_deviation() {
        let latency = Latency::of([1, 3].map(Duration::from_micros).to_vec());
        assert_eq!(
            (latency.mean_micros, latency.deviation_micros, latency.p99_micros),
            (2.0, 1.0, 3.0)
        );
    }
}
