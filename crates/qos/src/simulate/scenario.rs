//! What is simulated.

use std::time::Duration;

use crate::IoKind;
use crate::scheduler::{DeviceLimits, TenantSettings, Ties};

/// A device or a link with its scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedQueue {
    /// What may be outstanding.
    pub limits: DeviceLimits,
    /// The order of equal priorities.
    pub ties: Ties,
    /// How it serves what it is sent.
    pub device: SimulatedDevice,
}

/// How a device serves requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SimulatedDevice {
    /// One after the other, in the order in which they are sent.
    #[default]
    Serial,
    /// Serves reads one after the other, and at the same time writes in groups. A group consists of
    /// all writes that wait when it begins. They are done together.
    Groups {
        /// How long the sync of a group takes, independent of its size. The work of a write
        /// includes its part of the two syncs of a full device; the device subtracts this part.
        sync: Duration,
        /// When the next group begins.
        next: NextGroup,
    },
}

/// When a device begins a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextGroup {
    /// As soon as the last group is done, with the writes that waited meanwhile.
    AtOnce,
    /// Once the tenants whose writes were in the last group have sent their next writes.
    Gathered,
}

/// What a request asks of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The place of the queue in [`Scenario::queues`].
    pub queue: usize,
    /// How long it alone keeps the device busy.
    pub work: Duration,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// When it comes.
    pub at: Duration,
    /// Whether it reads or writes.
    pub kind: IoKind,
    /// Bytes that it moves.
    pub bytes: u32,
    /// The legs that the request takes in parallel. Each leg lists the queues that it passes in
    /// turn.
    pub legs: Vec<Vec<Step>>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedTenant {
    /// Its settings at each queue that its requests pass.
    pub settings: Vec<(usize, TenantSettings)>,
    /// Its requests, in the order of their times.
    pub requests: Vec<SimulatedRequest>,
}

/// Tenants that share queues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenario {
    /// The queues.
    pub queues: Vec<SimulatedQueue>,
    /// The tenants.
    pub tenants: Vec<SimulatedTenant>,
}
