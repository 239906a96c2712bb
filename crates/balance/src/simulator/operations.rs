//! `Operations`: what clients ask for in a simulation.

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

/// The most events of a recorded trace. Cut a longer trace into parts, and simulate each.
const MAX_TRACE_EVENTS: usize = 10_000_000;

/// Steps of all jobs together.
const MAX_JOB_STEPS: usize = 1_000_000;

/// What clients ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operations {
    /// Operations that are made up.
    Arrivals(Arrivals),
    /// Operations that were recorded.
    Trace(Vec<TraceEvent>),
    /// Clients do jobs: each issues one operation after another and waits for each answer. The
    /// simulation ends when all jobs are done.
    Jobs(Vec<Job>),
}

/// Made-up operations. They arrive at their rate whether or not earlier ones were served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Arrivals {
    /// Operations a second that a unit has on average.
    pub per_unit_per_second: f64,
    /// The share of reads, from 0 to 1. All other operations are writes.
    pub reads_share: f64,
    /// How the operations are spread over the units.
    pub distribution: Distribution,
}

/// How operations are spread over units.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// All units get the same rate.
    #[default]
    Uniform,
    /// The `k`th most popular unit gets a share of the operations that is proportional to `k` to
    /// the power of `-exponent`. The seed decides the order of popularity.
    Zipf {
        /// 0 is uniform; 1 is common.
        exponent: f64,
    },
    /// All units get the same rate. For some time, a few units that the seed chooses get many times
    /// that rate.
    FlashCrowd {
        /// When the crowd comes.
        from_seconds: f64,
        /// When it goes.
        to_seconds: f64,
        /// How many units it asks for.
        units: usize,
        /// By how much their rates are multiplied.
        factor: f64,
    },
}

/// Operations on one unit that were recorded together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEvent {
    /// When they arrive, counted from the beginning.
    pub at_seconds: f64,
    /// The unit's name.
    pub unit: String,
    /// Reads.
    #[serde(default)]
    pub reads: f64,
    /// Writes.
    #[serde(default)]
    pub writes: f64,
}

/// What a client does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// When it begins.
    #[serde(default)]
    pub begins_at_seconds: f64,
    /// One after another.
    pub steps: Vec<JobStep>,
}

/// Operations of a client on some units, which share them evenly.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobStep {
    /// The units' names.
    pub units: Vec<String>,
    /// Reads.
    #[serde(default)]
    pub reads: f64,
    /// Writes.
    #[serde(default)]
    pub writes: f64,
    /// The time from one operation to the next, if no rank is overloaded.
    pub think_seconds: f64,
}

impl JobStep {
    /// Reads and writes.
    pub(super) fn operations(&self) -> f64 {
        self.reads + self.writes
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { per_unit_per_second: 100.0, reads_share: 0.0, distribution: Distribution::default() }
    }
}

impl Default for Operations {
    fn default() -> Self {
        Self::Arrivals(Arrivals::default())
    }
}

impl Operations {
    /// Checks the operations.
    ///
    /// # Errors
    /// `Invalid` for a number out of bounds; `Exhausted` for a trace that is too long.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Arrivals(arrivals) => arrivals.check(),
            Self::Trace(events) => check_trace(events),
            Self::Jobs(jobs) => check_jobs(jobs),
        }
    }
}

impl Arrivals {
    fn check(&self) -> Result<()> {
        require("per_unit_per_second", self.per_unit_per_second, 0.0, 1e9)?;
        require("reads_share", self.reads_share, 0.0, 1.0)?;
        match &self.distribution {
            Distribution::Uniform => Ok(()),
            Distribution::Zipf { exponent } => require("exponent", *exponent, 0.0, 10.0),
            Distribution::FlashCrowd { from_seconds, to_seconds, factor, .. } => {
                require("from_seconds", *from_seconds, 0.0, f64::MAX)?;
                require("to_seconds", *to_seconds, *from_seconds, f64::MAX)?;
                require("factor", *factor, 0.0, 1e6)
            }
        }
    }
}

fn check_trace(events: &[TraceEvent]) -> Result<()> {
    if events.len() > MAX_TRACE_EVENTS {
        let text = format!(
            "the trace has {} events; at most {MAX_TRACE_EVENTS} are allowed",
            events.len()
        );
        return Err(Error::exhausted(text));
    }
    for event in events {
        require("at_seconds", event.at_seconds, 0.0, f64::MAX)?;
        require("reads", event.reads, 0.0, 1e12)?;
        require("writes", event.writes, 0.0, 1e12)?;
    }
    Ok(())
}

fn check_jobs(jobs: &[Job]) -> Result<()> {
    let steps: usize = jobs.iter().map(|job| job.steps.len()).sum();
    if steps > MAX_JOB_STEPS {
        let text = format!("the jobs have {steps} steps; at most {MAX_JOB_STEPS} are allowed");
        return Err(Error::exhausted(text));
    }
    for job in jobs {
        require("begins_at_seconds", job.begins_at_seconds, 0.0, f64::MAX)?;
        for step in &job.steps {
            require("reads", step.reads, 0.0, 1e12)?;
            require("writes", step.writes, 0.0, 1e12)?;
            require("think_seconds", step.think_seconds, 1e-9, 1e6)?;
            if step.units.is_empty() {
                return Err(Error::invalid("a step of a job names no units"));
            }
        }
    }
    Ok(())
}

/// # Errors
/// `Invalid` unless a number is within bounds.
pub(super) fn require(name: &str, value: f64, least: f64, most: f64) -> Result<()> {
    match value >= least && value <= most {
        true => Ok(()),
        false => {
            let most =
                if most == f64::MAX { String::new() } else { format!(" and at most {most}") };
            Err(Error::invalid(format!("{name} is {value}; it must be at least {least}{most}")))
        }
    }
}
