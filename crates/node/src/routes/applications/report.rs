//! What the controller of a cluster says of itself and of its applications, in JSON.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nacre_object::{ApplicationName, Error};
use serde::{Deserialize, Serialize};

/// How many of an application's last events a report has.
const KEPT_EVENTS: usize = 8;

/// What a node says of the controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerReport {
    /// Whether this node is the controller.
    pub is_controller: bool,
    /// The applications that it runs; empty on other nodes.
    pub applications: BTreeMap<String, ApplicationReport>,
    /// Why the controller cannot work, if it cannot.
    pub problem: Option<String>,
}

/// An application that the controller runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplicationReport {
    /// The program.
    pub program: String,
    /// The version that ran last; `None` before the first run.
    pub version: Option<u64>,
    /// The epoch of the map `routes` whose settings the last run used.
    pub epoch: u64,
    /// How often this controller has run the program.
    pub runs: u64,
    /// When the last run ended, in microseconds since 1970; 0 before the first.
    pub ran_at_micros: u64,
    /// How many of these runs failed, because of the program or of its rules.
    pub failures: u64,
    /// How many IOs have waited for its rules, because rules sent them to the controller.
    #[serde(default)]
    pub asked: u64,
    /// How often its rules have changed.
    pub changes: u64,
    /// How many rules it has.
    pub rules: usize,
    /// Why the last run failed, if it did.
    pub problem: Option<String>,
    /// The last events that it told, the latest last.
    pub told: VecDeque<String>,
}

/// The report of a node. Its task writes it, and its service and metrics read it.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<ControllerReport>);

impl Reports {
    fn lock(&self) -> MutexGuard<'_, ControllerReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn report(&self) -> ControllerReport {
        self.lock().clone()
    }

    /// This node is not the controller.
    pub fn note_other(&self) {
        *self.lock() = ControllerReport::default();
    }

    /// This node is the controller of these applications.
    pub fn note_controller<'a>(&self, names: impl Iterator<Item = &'a ApplicationName>) {
        let mut report = self.lock();
        report.is_controller = true;
        report.problem = None;
        let mut before = std::mem::take(&mut report.applications);
        for name in names {
            let name = name.to_string();
            let known = before.remove(&name).unwrap_or_default();
            report.applications.insert(name, known);
        }
    }

    pub fn note_problem(&self, error: &Error) {
        self.lock().problem = Some(error.to_string());
    }

    /// Changes what is said of an application.
    pub fn note(&self, name: &ApplicationName, change: impl FnOnce(&mut ApplicationReport)) {
        let mut report = self.lock();
        let application = report.applications.entry(name.to_string()).or_default();
        change(application);
        let excess = application.told.len().saturating_sub(KEPT_EVENTS);
        application.told.drain(..excess);
    }
}
