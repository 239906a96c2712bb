//! Takes down who asked what, when, and what they heard.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One call, as its client saw it.
#[derive(Debug, Clone)]
pub struct Operation<Call, Answer> {
    /// What was asked.
    pub call: Call,
    /// The answer; `None` if it is unknown whether the call happened.
    pub answer: Option<Answer>,
    /// When it was asked: moments are numbers, each given once.
    pub invoked: u64,
    /// When the answer was heard; past every moment if it never was.
    pub returned: u64,
}

/// Which call an answer belongs to.
#[derive(Debug)]
#[must_use = "a call that is not ended counts as unknown"]
pub struct Ticket(usize);

/// A history in the making. Clones write into the same one.
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

    /// A call is about to be made.
    pub fn begin(&self, call: Call) -> Ticket {
        let mut taken = self.taken();
        taken.moments += 1;
        let invoked = taken.moments;
        taken.operations.push(Some(Operation { call, answer: None, invoked, returned: u64::MAX }));
        Ticket(taken.operations.len() - 1)
    }

    /// Its answer was heard just now.
    pub fn end(&self, ticket: Ticket, answer: Answer) {
        let mut taken = self.taken();
        taken.moments += 1;
        let moment = taken.moments;
        let operation = taken.operations[ticket.0].as_mut().expect("a call ends once");
        operation.answer = Some(answer);
        operation.returned = moment;
    }

    /// It is certain that the call did nothing and never will.
    pub fn never_happened(&self, ticket: Ticket) {
        self.taken().operations[ticket.0] = None;
    }

    /// The history so far, in the order of asking.
    pub fn operations(&self) -> Vec<Operation<Call, Answer>> {
        self.taken().operations.iter().flatten().cloned().collect()
    }
}
