//! The recovery step of a takeover, which each kind of state machine implements. After a node has
//! claimed a machine, the recovery seals the old epoch and finds the state to serve from.

use std::fmt;

use crate::record::Record;

/// Recovers one hosted state machine, without doing IO itself. It starts once the node's claim is
/// stored.
///
/// **Invariant for implementers:** return [`Step::Serve`] only after no request of an earlier epoch
/// can change the state that was found.
pub trait Recovery: fmt::Debug + Send + Sized + 'static {
    /// What is stored of the machine.
    type Record: Record;
    /// What the recovery asks its caller to do.
    type Command: fmt::Debug + Send;
    /// The result of a command.
    type Event: fmt::Debug + Send;
    /// The state that it found.
    type Found: fmt::Debug + Send;

    /// The recovery for this claim.
    fn new(claimed: Self::Record) -> Self;

    /// What to do first.
    fn start(&mut self) -> Vec<Step<Self::Command, Self::Found>>;

    /// Takes an event and returns the next commands. Late or repeated events are harmless.
    fn handle(&mut self, event: Self::Event) -> Vec<Step<Self::Command, Self::Found>>;

    /// Handles the reply to [`Step::CheckClaim`] if the stored record still has this node's claim.
    fn claim_stands(&mut self) -> Vec<Step<Self::Command, Self::Found>>;
}

/// What a recovery asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<C, F> {
    /// Carry this out.
    Do(C),
    /// Another node has sealed already: read whether this node's claim is still stored.
    CheckClaim,
    /// Done: serve from this state.
    Serve(F),
}
