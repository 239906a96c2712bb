//! `Clients`: clients of a simulation that do their jobs, one step after another.
//!
//! Operations are not simulated one by one. In each step of the simulation a client issues as many
//! operations as its own time allows. It issues no more while as many of its operations already
//! wait in the ranks' queues. So a client runs at its own pace while no rank is overloaded, and
//! otherwise at the pace of the slowest rank that it needs.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{Error, Result};

use super::cluster::Cluster;
use super::scenario::UnitPlan;
use super::{Job, JobStep};

/// A client with fewer waiting operations than this has finished. Each step serves only a share of
/// the waiting operations, so their number never reaches zero.
const NO_OPERATIONS: f64 = 0.5;
/// A step with fewer operations left than this is done, in spite of rounding errors.
const ROUNDING: f64 = 1e-9;

/// Clients that do their jobs.
#[derive(Debug)]
pub(super) struct Clients {
    all: Vec<Client>,
    /// How long they remember where they found a unit.
    lease_seconds: f64,
}

#[derive(Debug)]
struct Client {
    begins_at: f64,
    /// What it has to do, the last step first.
    left: Vec<Step>,
    /// Operations that wait, by unit.
    waiting: BTreeMap<usize, f64>,
    /// The rank on which it last found each unit, and when.
    known: BTreeMap<usize, (usize, f64)>,
    /// The ranks that it has asked.
    sessions: BTreeSet<usize>,
    finished_at: Option<f64>,
}

/// A step of the simulation.
#[derive(Debug, Clone, Copy)]
struct SimulationStep {
    now: f64,
    seconds: f64,
    lease_seconds: f64,
}

/// A step of a job, with the operations that are still to do.
#[derive(Debug)]
struct Step {
    units: Vec<usize>,
    operations: f64,
    reads_share: f64,
    think_seconds: f64,
}

impl Clients {
    /// # Errors
    /// `Invalid` if a job names a unit that does not exist.
    pub fn new(jobs: &[Job], units: &[UnitPlan<'_>], lease_seconds: Option<f64>) -> Result<Self> {
        let client = |job: &Job| {
            let steps = job.steps.iter().rev().filter(|step| step.operations() > 0.0);
            Ok(Client {
                begins_at: job.begins_at_seconds,
                left: steps.map(|step| Step::new(step, units)).collect::<Result<_>>()?,
                waiting: BTreeMap::new(),
                known: BTreeMap::new(),
                sessions: BTreeSet::new(),
                finished_at: None,
            })
        };
        let all = jobs.iter().map(client).collect::<Result<_>>()?;
        Ok(Self { all, lease_seconds: lease_seconds.unwrap_or(f64::INFINITY) })
    }

    /// Lets each client issue operations in a step of the simulation.
    pub fn issue(&mut self, now: f64, seconds: f64, cluster: &mut Cluster<'_>) {
        let lease_seconds = self.lease_seconds;
        let step = SimulationStep { now, seconds, lease_seconds };
        self.all.iter_mut().for_each(|client| client.issue(step, cluster));
    }

    /// Subtracts the operations that were served in the step that ends now.
    pub fn learn(&mut self, now: f64, cluster: &Cluster<'_>) {
        self.all.iter_mut().for_each(|client| client.learn(now, cluster));
    }

    /// When the last client finished; `None` if a client has not finished.
    pub fn finished_at(&self) -> Option<f64> {
        self.all
            .iter()
            .map(|client| client.finished_at)
            .try_fold(0.0, |last: f64, it| Some(last.max(it?)))
    }

    /// Pairs of a client and a rank that it has asked.
    pub fn sessions(&self) -> u64 {
        self.all.iter().map(|client| client.sessions.len() as u64).sum()
    }
}

impl Client {
    fn issue(&mut self, at: SimulationStep, cluster: &mut Cluster<'_>) {
        let SimulationStep { now, seconds, .. } = at;
        let mut time = (now + seconds - self.begins_at).min(seconds);
        while time > ROUNDING * seconds
            && let Some(step) = self.left.last()
        {
            let count = step.units.len() as f64;
            let waits: f64 = step.units.iter().map(|unit| cluster.agreement_seconds(*unit)).sum();
            let each = step.think_seconds + waits / count;
            let room = seconds / each - self.waiting.values().sum::<f64>();
            let issued = (time / each).min(step.operations).min(room);
            if issued <= 0.0 {
                return;
            }
            time -= issued * each;
            let (units, reads_share) = (step.units.clone(), step.reads_share);
            for unit in units {
                self.ask(unit, at, cluster);
                let share = issued / count;
                cluster.add(unit, share * reads_share, share * (1.0 - reads_share));
                *self.waiting.entry(unit).or_default() += share;
            }
            let step = self.left.last_mut().expect("it is this step");
            step.operations -= issued;
            if step.operations < ROUNDING {
                self.left.pop();
            }
        }
    }

    /// Issues an operation on a unit. The client asks the rank on which it last found the unit, or
    /// the unit's first rank if it remembers none. If the unit is on another rank, the asked rank
    /// forwards the operation.
    fn ask(&mut self, unit: usize, at: SimulationStep, cluster: &mut Cluster<'_>) {
        let rank = cluster.asked_rank(unit);
        let known = self.known.insert(unit, (rank, at.now));
        let remembered = known.filter(|(_, then)| at.now - then <= at.lease_seconds);
        let known = remembered.map_or_else(|| cluster.first_rank(unit), |(rank, _)| rank);
        self.sessions.extend([known, rank]);
        if known != rank {
            cluster.pass_on(known);
        }
    }

    fn learn(&mut self, now: f64, cluster: &Cluster<'_>) {
        for (unit, count) in &mut self.waiting {
            *count *= 1.0 - cluster.served_share(*unit);
        }
        let waiting: f64 = self.waiting.values().sum();
        if self.finished_at.is_none() && self.left.is_empty() && waiting < NO_OPERATIONS {
            self.finished_at = Some(now);
        }
    }
}

impl Step {
    fn new(step: &JobStep, units: &[UnitPlan<'_>]) -> Result<Self> {
        let number = |name: &String| {
            let found = units.binary_search_by(|unit| unit.name.as_str().cmp(name));
            found.map_err(|_| Error::invalid(format!("a job names the unknown unit {name}")))
        };
        let operations = step.operations();
        Ok(Self {
            units: step.units.iter().map(number).collect::<Result<_>>()?,
            operations,
            reads_share: step.reads / operations,
            think_seconds: step.think_seconds,
        })
    }
}
