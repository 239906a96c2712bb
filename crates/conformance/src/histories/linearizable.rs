//! Checks histories for linearizability. The crate `todc-utils` does the search (by Wing and Gong,
//! with Lowe's cache).

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use todc_utils::{Action, History, Specification, WGLChecker};

use super::Operation;

/// The behaviour that clients would see if only one call ran at a time.
pub trait Model {
    /// The state between calls. The default value is the initial state.
    type State: Default + Clone + Eq + Hash + Debug;
    /// A call of a client.
    type Call: Clone + Debug;
    /// The answer to a call.
    type Answer: Clone + Debug;

    /// Returns the state after `call`, or `None` if a call in this state cannot have this answer. A
    /// call without an answer always gives a state: the state after its change, or the same state
    /// if it could not change anything.
    fn step(
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// Adapts a model to the library, in which an operation is a call together with its answer.
struct Adapted<M>(PhantomData<M>);

impl<M: Model> Specification for Adapted<M> {
    type State = M::State;
    type Operation = (M::Call, Option<M::Answer>);

    fn init() -> Self::State {
        M::State::default()
    }

    fn apply((call, answer): &Self::Operation, state: &Self::State) -> (bool, Self::State) {
        match M::step(state, call, answer.as_ref()) {
            Some(next) => (true, next),
            None => (false, state.clone()),
        }
    }
}

/// Checks that a history is linearizable.
///
/// A call without an answer counts as ending after all other calls. So the check may put it last,
/// where it affects no other call. That covers the case that it never happened.
///
/// # Errors
/// The whole history, if it is not linearizable.
pub fn check<M: Model>(operations: &[Operation<M::Call, M::Answer>]) -> Result<(), String> {
    let mut actions = Vec::with_capacity(2 * operations.len());
    for (process, operation) in operations.iter().enumerate() {
        let asked = (operation.call.clone(), operation.answer.clone());
        actions.push((operation.invoked, process, Action::Call(asked.clone())));
        actions.push((operation.returned, process, Action::Response(asked)));
    }
    actions.sort_by_key(|(moment, process, _)| (*moment, *process));
    let actions: Vec<_> =
        actions.into_iter().map(|(_, process, action)| (process, action)).collect();
    if actions.is_empty()
        || WGLChecker::<Adapted<M>>::is_linearizable(History::from_actions(actions))
    {
        return Ok(());
    }
    Err(format!("no order explains this history:\n{}", printed(operations)))
}

fn printed<Call: Debug, Answer: Debug>(operations: &[Operation<Call, Answer>]) -> String {
    let line = |operation: &Operation<Call, Answer>| {
        let Operation { call, answer, invoked, returned } = operation;
        match answer {
            Some(answer) => format!("    {invoked:4} to {returned:4}: {call:?} -> {answer:?}\n"),
            None => format!("    {invoked:4} to ever: {call:?} -> unknown\n"),
        }
    };
    operations.iter().map(line).collect()
}
