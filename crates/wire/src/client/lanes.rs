//! What carries a client's requests to a node: a session, and a second one once much is under way.
//!
//! A session is one stream of batches. While the node answers a batch of reads its client has nothing to do,
//! and while the client takes the answers up and asks again, the node: the two take turns. With a second
//! session they overlap; 64 readers get up to twice as much (`nacre-bench object`).
//!
//! **Invariant:** a request is sent on one of them, as on a session that is the only one. The second is used
//! only while it is connected, so one that cannot be had keeps nobody waiting.

use std::sync::OnceLock;

use super::session::Session;
use crate::limits::LANE_BYTES;

/// The sessions with a node.
#[derive(Debug)]
pub(crate) struct Lanes {
    first: Session,
    /// Made when it is first of use.
    second: OnceLock<Session>,
}

impl Lanes {
    pub(crate) fn new(first: Session) -> Self {
        Self { first, second: OnceLock::new() }
    }

    /// The one that is always there.
    pub(crate) fn first(&self) -> &Session {
        &self.first
    }

    /// The one for the next request.
    pub(crate) fn next(&self) -> &Session {
        let under_way = self.first.under_way_bytes();
        if under_way < LANE_BYTES {
            return &self.first;
        }
        let second = self.second.get_or_init(|| self.first.another());
        let is_better = second.is_connected() && second.under_way_bytes() < under_way;
        if is_better { second } else { &self.first }
    }
}
