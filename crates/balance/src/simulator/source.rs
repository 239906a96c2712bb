//! `Source`: where the operations of a simulation come from.

use nacre_object::{Error, Result};

use super::arrival_rates::ArrivalRates;
use super::clients::Clients;
use super::cluster::Cluster;
use super::scenario::UnitPlan;
use super::{Operations, Scenario};

/// Absorbs rounding errors: ten steps of 0.1 s count as one second.
pub(super) const ROUNDING: f64 = 1e-9;

/// Where operations come from.
pub(super) enum Source {
    Arrivals {
        rates: ArrivalRates,
        /// Whether the flash crowd was active at the last step; `None` before the first step.
        is_crowded: Option<bool>,
    },
    Trace {
        /// The last event first.
        left: Vec<Arrival>,
    },
    Jobs(Clients),
}

/// Operations that arrive together.
pub(super) struct Arrival {
    at_seconds: f64,
    unit: usize,
    reads: f64,
    writes: f64,
}

impl Source {
    /// # Errors
    /// `Invalid` if an operation is on a unit that does not exist.
    pub fn new(scenario: &Scenario, units: &[UnitPlan<'_>]) -> Result<Self> {
        let events = match &scenario.operations {
            Operations::Arrivals(arrivals) => {
                let rates = ArrivalRates::new(arrivals, units.len(), scenario.seed);
                return Ok(Self::Arrivals { rates, is_crowded: None });
            }
            Operations::Jobs(jobs) => {
                return Clients::new(jobs, units, scenario.lease_seconds).map(Self::Jobs);
            }
            Operations::Trace(events) => events,
        };
        let mut left = vec![];
        for event in events {
            let found = units.binary_search_by(|unit| unit.name.as_str().cmp(&event.unit));
            let unit = found.map_err(|_| {
                Error::invalid(format!("the trace names the unknown unit {}", event.unit))
            })?;
            let (at_seconds, reads, writes) = (event.at_seconds, event.reads, event.writes);
            left.push(Arrival { at_seconds, unit, reads, writes });
        }
        left.sort_by(|one, other| other.at_seconds.total_cmp(&one.at_seconds));
        Ok(Self::Trace { left })
    }

    /// What arrives in a step.
    pub fn step(&mut self, now: f64, seconds: f64, cluster: &mut Cluster<'_>) {
        match self {
            Self::Arrivals { rates, is_crowded } => {
                let is_now = rates.is_crowded(now + ROUNDING);
                if *is_crowded != Some(is_now) {
                    *is_crowded = Some(is_now);
                    cluster.set_rates(&rates.at(now + ROUNDING), rates.reads_share());
                }
            }
            Self::Trace { left } => {
                let is_due = |next: &mut Arrival| next.at_seconds < now + seconds;
                while let Some(Arrival { unit, reads, writes, .. }) = left.pop_if(is_due) {
                    cluster.add(unit, reads, writes);
                }
            }
            Self::Jobs(clients) => clients.issue(now, seconds, cluster),
        }
    }

    /// Tells clients what was served in the step that ends now.
    pub fn learn(&mut self, now: f64, cluster: &Cluster<'_>) {
        if let Self::Jobs(clients) = self {
            clients.learn(now, cluster);
        }
    }

    /// The clients, if the operations come from clients with jobs.
    pub fn clients(&self) -> Option<&Clients> {
        match self {
            Self::Jobs(clients) => Some(clients),
            Self::Arrivals { .. } | Self::Trace { .. } => None,
        }
    }
}
