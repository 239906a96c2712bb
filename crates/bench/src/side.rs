//! One of several ways that are measured in turns on a Ceph cluster.

use crate::cpu_micros::CpuMicros;
use crate::load::{Outcome, Runs, median};

/// The measurements of one way.
#[derive(Default)]
pub(crate) struct Side {
    pub runs: Runs,
    osd_micros: Vec<f64>,
    client_micros: Vec<f64>,
}

impl Side {
    /// Adds the outcome of a round, and the CPU time of each of its operations.
    pub fn push(&mut self, (outcome, cpu): (Outcome, CpuMicros)) {
        self.runs.push(outcome);
        self.osd_micros.push(cpu.servers);
        self.client_micros.push(cpu.client);
    }

    /// The median of the CPU time of an operation in the OSDs, in microseconds.
    pub fn osd_micros(&self) -> f64 {
        median(self.osd_micros.clone())
    }

    /// The median of the CPU time of an operation in the client, in microseconds.
    pub fn client_micros(&self) -> f64 {
        median(self.client_micros.clone())
    }
}
