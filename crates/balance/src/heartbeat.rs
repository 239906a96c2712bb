//! `Heartbeat`: what one rank tells all others at a tick (Mantle, section 2.1).

use serde::{Deserialize, Serialize};

use crate::RankLoad;

/// What one rank tells all others at a tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The tick's number: the time since 1970, divided by the length of a tick.
    pub tick: u64,
    /// The program by which the sender measured its load.
    pub policy: String,
    /// The version of that program.
    pub version: u64,
    /// The nodes that are ranks as far as the sender knows, in the order of the ranks.
    pub ranks: Vec<String>,
    /// The sender's load. `node` is the sender.
    pub load: RankLoad,
}
