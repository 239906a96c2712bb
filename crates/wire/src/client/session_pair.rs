//! The sessions that carry a client's requests to a node: one session, and a second one when many
//! requests are in flight.
//!
//! A session is one stream of batches in each direction. While the node answers a batch of reads,
//! its client is idle; while the client processes the answers and sends the next batch, the node is
//! idle. With a second session, client and node work at the same time: 64 readers get up to twice
//! the rate (`nacre-bench object`).
//!
//! **Invariant:** each request is sent on exactly one session. The second session carries requests
//! only while it is connected, so a second session that cannot connect delays no request.

use std::sync::OnceLock;

use super::session::Session;
use crate::limits::SECOND_SESSION_BYTES;

/// The sessions with a node.
#[derive(Debug)]
pub(crate) struct SessionPair {
    first: Session,
    /// Opened when it is first needed.
    second: OnceLock<Session>,
}

impl SessionPair {
    pub(crate) fn new(first: Session) -> Self {
        Self { first, second: OnceLock::new() }
    }

    /// The first session, which always exists.
    pub(crate) fn first(&self) -> &Session {
        &self.first
    }

    /// The session for the next request: the one with less in flight.
    pub(crate) fn next(&self) -> &Session {
        let under_way = self.first.under_way_bytes();
        if under_way < SECOND_SESSION_BYTES {
            return &self.first;
        }
        let second = self.second.get_or_init(|| self.first.another());
        let is_better = second.is_connected() && second.under_way_bytes() < under_way;
        if is_better { second } else { &self.first }
    }
}
