//! The input of a simulation: queues, tenants and requests.

use std::time::Duration;

use crate::IoKind;
use crate::scheduler::{DeviceLimits, TenantSettings, Ties};

/// A device or a link with its scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedQueue {
    /// How many requests may be outstanding at the device.
    pub limits: DeviceLimits,
    /// The order of tenants with equal priorities.
    pub ties: Ties,
    /// How the device serves requests.
    pub device: SimulatedDevice,
}

/// How a device serves requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SimulatedDevice {
    /// The device serves one request after the other, in the order in which they are sent.
    #[default]
    Serial,
    /// The device serves reads one after the other. At the same time it serves writes in groups.
    /// All writes that wait when a group starts belong to it, and they are done together.
    Groups {
        /// How long the sync of a group takes, whatever the size of the group. The work of a write
        /// contains its part of two syncs. The simulated device subtracts that part, because it
        /// adds the sync itself.
        sync: Duration,
        /// When the device starts the next group.
        next: NextGroup,
    },
}

/// When a device starts the next group of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextGroup {
    /// As soon as the last group is done, with the writes that have arrived meanwhile.
    AtOnce,
    /// Once the tenants whose writes were in the last group have sent their next writes.
    Gathered,
}

/// The work of a request at one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The index of the queue in [`Scenario::queues`].
    pub queue: usize,
    /// How long the device needs for this request alone.
    pub work: Duration,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// The time at which it arrives.
    pub at: Duration,
    /// Whether it reads or writes.
    pub kind: IoKind,
    /// Bytes that it moves.
    pub bytes: u32,
    /// The paths that the request takes in parallel, such as one for each copy of a write. Each
    /// path lists the queues that the request passes in order.
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
