//! What delivery counts.

use nacre_telemetry::Counter;

/// What became of messages.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub calls: Counter,
    pub notifications: Counter,
    pub removals: Counter,
    pub dead: Counter,
    pub failures: Counter,
}

/// What became of the messages that a process delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryStats {
    /// Calls of other objects that were carried out, or had been before.
    pub calls: u64,
    /// Notifications.
    pub notifications: u64,
    /// Objects that were removed, or had changed meanwhile.
    pub removals: u64,
    /// Messages that were given up.
    pub dead: u64,
    /// Attempts that failed and are made again.
    pub failures: u64,
    /// Messages that wait for a receiver that failed.
    pub waiting: u64,
}

impl Counters {
    pub fn read(&self, waiting: usize) -> DeliveryStats {
        DeliveryStats {
            calls: self.calls.get(),
            notifications: self.notifications.get(),
            removals: self.removals.get(),
            dead: self.dead.get(),
            failures: self.failures.get(),
            waiting: waiting as u64,
        }
    }
}
