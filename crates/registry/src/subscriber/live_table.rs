//! The table of programs that are live on a node, for other parts of the same process.

use std::collections::BTreeMap;

use nacre_object::Error;

use crate::programs::ProgramId;

/// The state of one program on this node.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveState {
    /// The version that is live.
    pub(super) live: Option<u64>,
    /// The version that is active, as far as the node knows.
    pub(super) wanted: Option<u64>,
    /// Whether the node has carried out all that it knows about the program.
    pub(super) settled: bool,
    /// Why the wanted version is not live, if that was tried.
    pub(super) error: Option<Error>,
}

/// How programs stand on this node.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveTable {
    /// The epoch of the map `programs` up to which the node knows it.
    pub(super) known_epoch: u64,
    pub(super) programs: BTreeMap<ProgramId, LiveState>,
}

impl LiveTable {
    pub(super) fn state(&self, program: &ProgramId) -> LiveState {
        let unknown = LiveState { settled: true, ..LiveState::default() };
        self.programs.get(program).cloned().unwrap_or(unknown)
    }

    /// Whether, for one program, the node has dealt with all changes up to an epoch.
    pub(super) fn has_settled(&self, program: &ProgramId, epoch: u64) -> bool {
        self.known_epoch >= epoch && self.state(program).settled
    }

    /// Whether everything up to an epoch was dealt with.
    pub(super) fn has_settled_all(&self, epoch: u64) -> bool {
        self.known_epoch >= epoch && self.programs.values().all(|state| state.settled)
    }
}
