//! Records the calls of clients, their answers, and the times of both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One call, as its client saw it.
#[derive(Debug, Clone)]
pub struct Operation<Call, Answer> {
    /// The call.
    pub call: Call,
    /// The answer; `None` if it is unknown whether the call happened.
    pub answer: Option<Answer>,
    /// When the call began. Times are increasing numbers, each used only once.
    pub invoked: u64,
    /// When the answer came. Without an answer, a number greater than all times.
    pub returned: u64,
}

/// The recorded call to which an answer belongs.
#[derive(Debug)]
#[must_use = "a call that is not ended counts as unknown"]
pub struct Ticket(usize);

/// A history that is being recorded. Clones record into the same history.
#[derive(Debug)]
pub struct Recorder<Call, Answer>(Arc<Mutex<Taken<Call, Answer>>>);

#[derive(Debug)]
struct Taken<Call, Answer> {
    moments: u64,
    /// `None` for a call that is known not to have happened.
    operations: Vec<Option<Operation<Call, Answer>>>,
}

impl<Call, Answer> Clone for Recorder<Call, Answer> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Call, Answer> Default for Recorder<Call, Answer> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Taken { moments: 0, operations: vec![] })))
    }
}

impl<Call: Clone, Answer: Clone> Recorder<Call, Answer> {
    fn taken(&self) -> MutexGuard<'_, Taken<Call, Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a call begins.
    pub fn begin(&self, call: Call) -> Ticket {
        let mut taken = self.taken();
        taken.moments += 1;
        let invoked = taken.moments;
        taken.operations.push(Some(Operation { call, answer: None, invoked, returned: u64::MAX }));
        Ticket(taken.operations.len() - 1)
    }

    /// Records that the answer to a call has come.
    pub fn end(&self, ticket: Ticket, answer: Answer) {
        let mut taken = self.taken();
        taken.moments += 1;
        let moment = taken.moments;
        let operation = taken.operations[ticket.0].as_mut().expect("a call ends once");
        operation.answer = Some(answer);
        operation.returned = moment;
    }

    /// Removes a call that certainly did nothing and never will.
    pub fn never_happened(&self, ticket: Ticket) {
        self.taken().operations[ticket.0] = None;
    }

    /// The history so far, in the order in which the calls began.
    pub fn operations(&self) -> Vec<Operation<Call, Answer>> {
        self.taken().operations.iter().flatten().cloned().collect()
    }
}
