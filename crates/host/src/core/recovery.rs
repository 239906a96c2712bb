//! The step of a take-over that differs from kind to kind. It comes between the claim and serving:
//! it seals the old epoch and finds the state.

use std::fmt;

use crate::record::Record;

/// The recovery of one machine, as a state machine without IO. It starts after the claim of the
/// node is stored.
///
/// **Invariant for implementers:** return [`Step::Serve`] only after no request of an earlier epoch
/// can change the state that was found.
pub trait Recovery: fmt::Debug + Send + Sized + 'static {
    /// What is stored of the machine.
    type Record: Record;
    /// What it wants done.
    type Command: fmt::Debug + Send;
    /// What came of a command.
    type Event: fmt::Debug + Send;
    /// The state that it found.
    type Found: fmt::Debug + Send;

    /// The recovery for this claim.
    fn new(claimed: Self::Record) -> Self;

    /// What to do first.
    fn start(&mut self) -> Vec<Step<Self::Command, Self::Found>>;

    /// Takes an event and returns the next commands. Late or repeated events are harmless.
    fn handle(&mut self, event: Self::Event) -> Vec<Step<Self::Command, Self::Found>>;

    /// Takes in that the claim still stood when the record was read: the reply to [`Step::CheckClaim`].
    fn claim_stands(&mut self) -> Vec<Step<Self::Command, Self::Found>>;
}

/// What a recovery asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<C, F> {
    /// Carry this out.
    Do(C),
    /// Somebody has sealed already: read whether the claim still stands.
    CheckClaim,
    /// Done: serve from this state.
    Serve(F),
}
