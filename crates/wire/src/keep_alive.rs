//! How an end finds out that the other is dead without having said so.

use std::time::Duration;

/// How often a silent peer is probed, and how long it has to answer.
///
/// A process that dies closes its connections. So this is for processes that hang and for machines
/// that vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Asked after so much silence.
    pub interval: Duration,
    /// Given up after so much more.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    /// Ten seconds each: shorter ones take a busy machine for a dead one.
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), timeout: Duration::from_secs(10) }
    }
}
