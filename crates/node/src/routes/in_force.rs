//! `InForce`: which epochs of the map `routes` a node applies.
//!
//! The node's controller notes each epoch whose rules its switch has installed, and the caches note
//! each epoch whose settings they apply. The commands `nacre route put`, `rm`, `stop` and `cache`
//! change the map and so begin an epoch. Each command asks the concerned nodes for their noted
//! epochs until these have reached the new epoch.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

/// The epochs of the map of rules that a node applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteProgress {
    /// The target whose IO passes the node's switch.
    pub target: String,
    /// The epoch of the map whose rules the switch has installed; 0 until the node has read the
    /// map.
    pub rules_epoch: u64,
    /// The epoch of the map whose settings the caches apply.
    #[serde(default)]
    pub caches_epoch: u64,
    /// Why the caches do not apply the settings of the latest epoch that the node knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches_problem: Option<String>,
    /// Why the switch has not installed the rules of the latest epoch that the node knows.
    pub problem: Option<String>,
}

/// The progress of one node. Its tasks write it, and its service and metrics read it.
#[derive(Debug)]
pub(super) struct InForce(Mutex<RouteProgress>);

impl InForce {
    /// A node that has just started and has not read the map.
    pub fn new(target: String) -> Self {
        Self(Mutex::new(RouteProgress { target, ..RouteProgress::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, RouteProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn progress(&self) -> RouteProgress {
        self.lock().clone()
    }

    /// The switch has installed the rules of an epoch.
    pub fn note_rules(&self, epoch: u64) {
        let mut progress = self.lock();
        progress.rules_epoch = epoch;
        progress.problem = None;
    }

    /// The caches apply the settings of an epoch, or cannot.
    pub fn note_caches(&self, applied: Result<u64>) {
        let mut progress = self.lock();
        match applied {
            Ok(epoch) => (progress.caches_epoch, progress.caches_problem) = (epoch, None),
            Err(error) => progress.caches_problem = Some(error.to_string()),
        }
    }

    /// Records why the node cannot install the latest rules, or cannot do so yet.
    pub fn note_problem(&self, error: &Error) {
        self.lock().problem = Some(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_lasts_until_newer_rules_are_in_force() {
        let in_force = InForce::new("storage.0".to_owned());
        in_force.note_rules(3);
        in_force.note_problem(&Error::exhausted("too many rules"));
        let progress = in_force.progress();
        assert_eq!(progress.rules_epoch, 3, "the former rules stay in force");
        assert!(progress.problem.unwrap().contains("too many rules"));
        in_force.note_rules(4);
        let progress = in_force.progress();
        assert_eq!((progress.rules_epoch, progress.problem), (4, None));
    }
}
