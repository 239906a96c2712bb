//! A node as its supervisor knows it.

use std::sync::{Arc, Mutex, PoisonError};

use nacre_telemetry::Counter;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// Started, not ready yet.
    Starting,
    /// It serves.
    Up {
        /// Its process.
        pid: u32,
    },
    /// It ended and will be started again.
    Down {
        /// Why it ended.
        reason: String,
        /// When that will be: microseconds since 1970, UTC.
        next_start_at_micros: u64,
    },
    /// It is kept down until it is resumed.
    HeldDown,
    /// It was asked to stop and did.
    Stopped,
}

impl NodeState {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Up { .. } => "up",
            Self::Down { .. } => "down",
            Self::HeldDown => "held",
            Self::Stopped => "stopped",
        }
    }
}

/// The end of a node's process after which the node was restarted, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// When it ended: microseconds since 1970, UTC.
    pub at_micros: u64,
    /// The reason, in one line.
    pub reason: String,
}

/// A node, as its supervisor reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisedReport {
    /// Its name.
    pub name: String,
    /// `starting`, `up`, `down`, `held` or `stopped`.
    pub state: String,
    /// How often it was started again.
    pub restarts: u64,
    /// Its last end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end: Option<NodeEnd>,
    /// When the node is restarted, if it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_start_at_micros: Option<u64>,
}

/// The starts and ends of a node's processes so far.
#[derive(Debug, Default)]
pub(super) struct History {
    pub restarts: Counter,
    last_end: Mutex<Option<NodeEnd>>,
}

impl History {
    pub fn ended(&self, end: NodeEnd) {
        *self.last_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    fn last_end(&self) -> Option<NodeEnd> {
        self.last_end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A node that is kept running.
#[derive(Debug, Clone)]
pub struct SupervisedNode {
    pub(super) name: String,
    pub(super) state: watch::Receiver<NodeState>,
    pub(super) history: Arc<History>,
}

impl SupervisedNode {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it serves.
    pub fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), NodeState::Up { .. })
    }

    /// How often the node was restarted after it had ended without an order.
    pub fn restarts(&self) -> u64 {
        self.history.restarts.get()
    }

    /// The report of this node.
    pub fn report(&self) -> SupervisedReport {
        let state = self.state.borrow().clone();
        let next_start_at_micros = match state {
            NodeState::Down { next_start_at_micros, .. } => Some(next_start_at_micros),
            _ => None,
        };
        SupervisedReport {
            name: self.name.clone(),
            state: state.as_str().to_owned(),
            restarts: self.restarts(),
            last_end: self.history.last_end(),
            next_start_at_micros,
        }
    }
}
