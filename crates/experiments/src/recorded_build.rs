//! `RecordedBuild`: the requests that a real build sent to a file system's metadata servers.
//! `scripts/record-build` writes such a recording.
//!
//! Compilation figures can replay a recording instead of a generated compilation. A client takes
//! one second for the operations that the build did in one second, unless a rank slows it down.

use std::collections::{BTreeMap, BTreeSet};

use nacre_balance::{Job, JobStep};
use nacre_clock::Random;
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::figure_chart::rounded;
use crate::workloads::{Workload, units, variation};

/// The longest recording in seconds. A longer one cannot be a build on one machine.
const MOST_SECONDS: u64 = 24 * 3600;
/// How many directories a summary names.
const BUSIEST: usize = 12;

/// A build that was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedBuild {
    /// What was built, and how.
    pub command: String,
    /// How long it took under strace.
    pub seconds: f64,
    /// Names that the build looked up, including those that a client of CephFS has in its cache.
    pub lookups: u64,
    /// Names that the cache of such a client holds.
    pub cached_names: u64,
    /// The operations that reach metadata servers, in order.
    pub steps: Vec<RecordedStep>,
}

/// The operations of a second on one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedStep {
    /// Which second of the build.
    pub second: u64,
    /// The directory, below the folder of the build.
    pub directory: String,
    /// Names that were looked up, and listings.
    pub reads: u64,
    /// Names that were made or removed.
    pub writes: u64,
}

/// A recorded build in numbers, to be compared with another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildSummary {
    /// What was built, and how.
    pub command: String,
    /// How long it took under strace.
    pub seconds: f64,
    /// Names that the build looked up, also those that a client of CephFS answers itself.
    pub lookups: u64,
    /// Operations that reach metadata servers.
    pub operations: u64,
    /// The share of reads in them.
    pub reads_share: f64,
    /// Directories that have operations.
    pub directories: usize,
    /// The busiest of them, with their shares.
    pub busiest: Vec<(String, f64)>,
}

impl RecordedBuild {
    /// The recorded build in numbers.
    pub fn summary(&self) -> BuildSummary {
        let mut busiest = self.shares();
        let directories = busiest.len();
        busiest.truncate(BUSIEST);
        busiest.iter_mut().for_each(|(_, share)| *share = rounded(*share));
        BuildSummary {
            command: self.command.clone(),
            seconds: self.seconds,
            lookups: self.lookups,
            operations: self.operations(),
            reads_share: rounded(self.reads_share()),
            directories,
            busiest,
        }
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// `Invalid` for anything else, and for a recording without operations.
    pub fn from_json(text: &str) -> Result<Self> {
        let build: Self = serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("the file is not a recorded build: {error}"))
        })?;
        if build.operations() == 0 {
            return Err(Error::invalid("the recorded build has no operations"));
        }
        match build.steps.iter().any(|step| step.second > MOST_SECONDS) {
            true => Err(Error::invalid("the recorded build takes more than a day")),
            false => Ok(build),
        }
    }

    /// Operations that reach metadata servers.
    pub fn operations(&self) -> u64 {
        self.steps.iter().map(|step| step.reads + step.writes).sum()
    }

    /// The share of reads in them.
    pub fn reads_share(&self) -> f64 {
        let reads = self.steps.iter().map(|step| step.reads).sum::<u64>();
        reads as f64 / self.operations() as f64
    }

    /// Each directory with its share in them, the greatest first.
    pub fn shares(&self) -> Vec<(String, f64)> {
        let mut counts = BTreeMap::<&str, u64>::new();
        for step in &self.steps {
            *counts.entry(&step.directory).or_default() += step.reads + step.writes;
        }
        let all = self.operations() as f64;
        let mut shares: Vec<_> =
            counts.into_iter().map(|(name, count)| (name.to_owned(), count as f64 / all)).collect();
        shares.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        shares
    }

    /// Clients that do this build, each in a tree of its own.
    pub(crate) fn workload(&self, clients: usize, seed: u64) -> Workload {
        let mut random = Random::seeded(seed);
        let jobs = (0..clients).map(|client| self.job(client, &mut random)).collect();
        let names: BTreeSet<_> = self.steps.iter().map(|step| step.directory.as_str()).collect();
        let of = |client| names.iter().map(move |name| units(&unit(client, name), 1, None));
        Workload { units: (0..clients).flat_map(of).collect(), jobs, clients_per_unit: 1.0 }
    }

    fn job(&self, client: usize, random: &mut Random) -> Job {
        let (begins_at_seconds, pace) = variation(random);
        let mut in_second = BTreeMap::<u64, u64>::new();
        for step in &self.steps {
            *in_second.entry(step.second).or_default() += step.reads + step.writes;
        }
        // A second without operations lengthens the one before it.
        let mut lasts = BTreeMap::new();
        for (second, next) in in_second.keys().zip(in_second.keys().skip(1)) {
            lasts.insert(*second, (next - second) as f64);
        }
        let step = |step: &RecordedStep| JobStep {
            units: vec![unit(client, &step.directory)],
            reads: step.reads as f64,
            writes: step.writes as f64,
            think_seconds: pace * lasts.get(&step.second).copied().unwrap_or(1.0)
                / in_second[&step.second].max(1) as f64,
        };
        Job { begins_at_seconds, steps: self.steps.iter().map(step).collect() }
    }
}

fn unit(client: usize, directory: &str) -> String {
    format!("client{client}/{directory}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"command":"make","seconds":4.0,"lookups":90,"cached_names":16384,"steps":[
        {"second":0,"directory":"a","reads":3,"writes":1},
        {"second":0,"directory":"b","reads":0,"writes":6},
        {"second":3,"directory":"a","reads":10,"writes":0}]}"#;

    #[test]
    fn a_client_takes_as_long_for_a_recorded_build_as_the_build_took() {
        let build = RecordedBuild::from_json(TEXT).unwrap();
        assert_eq!((build.operations(), build.reads_share()), (20, 0.65));
        let summary = build.summary();
        assert_eq!(summary.busiest, [("a".to_owned(), 0.7), ("b".to_owned(), 0.3)]);
        assert_eq!((summary.directories, summary.operations), (2, 20));
        let workload = build.workload(2, 1);
        assert_eq!(workload.units.len(), 4);
        for job in &workload.jobs {
            let seconds: f64 =
                job.steps.iter().map(|step| (step.reads + step.writes) * step.think_seconds).sum();
            assert!((3.8..4.2).contains(&seconds), "{seconds}");
        }
    }

    #[test]
    fn a_recording_without_operations_is_refused() {
        let empty = r#"{"command":"","seconds":0,"lookups":0,"cached_names":0,"steps":[]}"#;
        assert!(RecordedBuild::from_json(empty).is_err());
        assert!(RecordedBuild::from_json("{}").is_err());
    }
}
