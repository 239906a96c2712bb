//! How an end of a connection finds out that the other end died without closing the connection.

use std::time::Duration;

/// Keep-alive of a connection: the time without traffic after which one end probes its peer, and
/// how long the peer has to answer.
///
/// The kernel closes the connections of a process that dies. So probes are needed only for
/// processes that hang and for machines that lose power or their network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Asked after so much silence.
    pub interval: Duration,
    /// Given up after so much more.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    /// Both times are ten seconds. With shorter times, the client or node would take a busy peer
    /// for a dead one.
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), timeout: Duration::from_secs(10) }
    }
}
