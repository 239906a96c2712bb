//! `RankCounters`: the counters of a rank, from the output of `perf dump` of the rank's MDS. Ceph
//! 16 and 18 use the same names.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Counters of a rank since its MDS started, or of a part of that time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankCounters {
    /// Requests that clients sent to this rank.
    pub requests: u64,
    /// Requests that this rank answered.
    pub replies: u64,
    /// Requests that this rank forwarded, because another rank serves the directory.
    pub forwards: u64,
    /// Messages of clients about their sessions: to open, renew or close one, or to confirm a
    /// flush.
    pub session_messages: u64,
    /// Sessions that were opened at this rank.
    pub sessions: u64,
    /// Requests of other ranks.
    pub peer_requests: u64,
    /// Subtrees that this rank moved to other ranks.
    pub exported_subtrees: u64,
    /// Inodes in the subtrees that this rank moved to other ranks.
    pub exported_inodes: u64,
    /// Directory fragments that were divided.
    pub divided_fragments: u64,
    /// Paths that this rank walked.
    pub traversals: u64,
    /// Paths that ended at a directory of another rank.
    pub traversals_forwarded: u64,
}

impl RankCounters {
    /// Reads the output of `perf dump`. A missing counter is 0.
    pub fn of(dump: &Value) -> Self {
        let of = |group: &str, name: &str| dump[group][name].as_u64().unwrap_or(0);
        Self {
            requests: of("mds_server", "handle_client_request"),
            replies: of("mds", "reply"),
            forwards: of("mds", "forward"),
            session_messages: of("mds_server", "handle_client_session"),
            sessions: of("mds_sessions", "session_add"),
            peer_requests: of("mds_server", "handle_peer_request"),
            exported_subtrees: of("mds", "exported"),
            exported_inodes: of("mds", "exported_inodes"),
            divided_fragments: of("mds", "dir_split"),
            traversals: of("mds", "traverse"),
            traversals_forwarded: of("mds", "traverse_forward"),
        }
    }

    /// The increase of each counter since `before`.
    pub fn since(self, before: Self) -> Self {
        self.combine(before, u64::saturating_sub)
    }

    /// The counters of two ranks together.
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    fn combine(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            requests: with(self.requests, other.requests),
            replies: with(self.replies, other.replies),
            forwards: with(self.forwards, other.forwards),
            session_messages: with(self.session_messages, other.session_messages),
            sessions: with(self.sessions, other.sessions),
            peer_requests: with(self.peer_requests, other.peer_requests),
            exported_subtrees: with(self.exported_subtrees, other.exported_subtrees),
            exported_inodes: with(self.exported_inodes, other.exported_inodes),
            divided_fragments: with(self.divided_fragments, other.divided_fragments),
            traversals: with(self.traversals, other.traversals),
            traversals_forwarded: with(self.traversals_forwarded, other.traversals_forwarded),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_since_an_earlier_dump_are_the_difference() {
        let dump = |requests: u64, forwards: u64| {
            json!({
                "mds": { "reply": 1, "forward": forwards },
                "mds_server": { "handle_client_request": requests },
            })
        };
        let before = RankCounters::of(&dump(10, 1));
        let since = RankCounters::of(&dump(25, 4)).since(before);
        assert_eq!((since.requests, since.forwards, since.replies), (15, 3, 0));
        assert_eq!(since.plus(before).forwards, 4);
    }
}
