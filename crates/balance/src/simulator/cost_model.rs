//! `CostModel`: how long things take in a simulation.

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

/// The costs of a simulation, in seconds. A field that is missing in JSON has its default.
///
/// The defaults are guesses of the right magnitude for sequencers on a local network. `nacre
/// balancer profile` measures the costs of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostModel {
    /// The time that an operation takes on the rank that serves it. A rank of capacity 2 serves
    /// twice as many operations a second.
    pub service_seconds: f64,
    /// The time that an operation takes on a rank that forwards it. In proxy mode the first rank of
    /// a moved unit forwards every operation on the unit. In client mode it forwards only the first
    /// operation of each client.
    pub forward_seconds: f64,
    /// How long a unit's operations wait while the unit moves. A rank moves one unit after another.
    pub migration_seconds: f64,
    /// The time that a move takes on the rank that the unit leaves, for each client of the unit.
    pub session_flush_seconds: f64,
    /// The time that a tick with moves takes on the sending rank, and on each receiving rank.
    pub coordination_seconds: f64,
    /// How long an operation on a fragment of a directory waits for each other rank that serves the
    /// directory. During the wait the ranks gather the values that the fragments share, such as the
    /// directory's size. Operations on the directory's first rank do not wait. Only clients that do
    /// jobs wait.
    pub scatter_gather_seconds: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            service_seconds: 100e-6,
            forward_seconds: 50e-6,
            migration_seconds: 10e-3,
            session_flush_seconds: 200e-6,
            coordination_seconds: 0.0,
            scatter_gather_seconds: 0.0,
        }
    }
}

impl CostModel {
    /// Checks the costs.
    ///
    /// # Errors
    /// `Invalid` for a time that is negative or not finite, and for a `service_seconds` of 0.
    pub(super) fn check(&self) -> Result<()> {
        let times = [
            ("service_seconds", self.service_seconds),
            ("forward_seconds", self.forward_seconds),
            ("migration_seconds", self.migration_seconds),
            ("session_flush_seconds", self.session_flush_seconds),
            ("coordination_seconds", self.coordination_seconds),
            ("scatter_gather_seconds", self.scatter_gather_seconds),
        ];
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        if let Some((name, seconds)) = times.into_iter().find(|(_, seconds)| !is_time(*seconds)) {
            return Err(Error::invalid(format!(
                "{name} is {seconds}; it must be a time of at least 0 s"
            )));
        }
        match self.service_seconds > 0.0 {
            true => Ok(()),
            false => Err(Error::invalid("service_seconds is 0; it must be above 0")),
        }
    }
}
