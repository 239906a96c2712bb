//! Tables of transactions, each with the required outcome.

use nacre_object::{ErrorKind, Op, OpResult};

use super::Bench;

/// A transaction on an object prepared for it, and its outcome.
pub(super) struct Case {
    /// The name of the case, which says what must happen.
    name: &'static str,
    /// Ops that prepare the object. Without ops, the object does not exist.
    given: Vec<Op>,
    /// The transaction.
    when: Vec<Op>,
    /// Its outcome.
    then: Outcome,
}

enum Outcome {
    /// It succeeds and answers so.
    Answers(Vec<OpResult>),
    /// The transaction fails with this kind of error, in the op with this name.
    Fails(ErrorKind, &'static str),
}

/// Begins a case.
pub(super) fn case(name: &'static str) -> Case {
    Case { name, given: vec![], when: vec![], then: Outcome::Answers(vec![]) }
}

impl Case {
    /// Prepares the object with these ops. Without this call the object does not exist.
    pub fn given(mut self, ops: impl IntoIterator<Item = Op>) -> Self {
        self.given = ops.into_iter().collect();
        self
    }

    /// The transaction.
    pub fn when(mut self, ops: impl IntoIterator<Item = Op>) -> Self {
        self.when = ops.into_iter().collect();
        self
    }

    /// It succeeds and answers so.
    pub fn answers(mut self, results: impl IntoIterator<Item = OpResult>) -> Self {
        self.then = Outcome::Answers(results.into_iter().collect());
        self
    }

    /// The transaction must fail with this kind of error, name the failing op, and change nothing.
    pub fn fails(mut self, kind: ErrorKind, operation: &'static str) -> Self {
        self.then = Outcome::Fails(kind, operation);
        self
    }

    async fn wrong_on(&self, bench: &Bench) -> Option<String> {
        let object = bench.object(self.name);
        if !self.given.is_empty() {
            object.does(self.given.clone()).await;
        }
        let before = (object.version().await, object.content().await);
        let outcome = object.submit(self.when.clone()).await;
        let unchanged = before == (object.version().await, object.content().await);
        match (&self.then, outcome) {
            (Outcome::Answers(expected), Ok(reply)) if reply.results == *expected => None,
            (Outcome::Answers(expected), other) => {
                Some(format!("expected {expected:?}, got {other:?}"))
            }
            (Outcome::Fails(kind, operation), Err(error)) => {
                let as_expected = error.kind() == *kind && error.operation() == Some(*operation);
                match (as_expected, unchanged) {
                    (true, true) => None,
                    (true, false) => Some("it failed and left a trace".to_owned()),
                    _ => Some(format!("expected {operation}: {kind}, got {error}")),
                }
            }
            (Outcome::Fails(kind, operation), Ok(reply)) => {
                Some(format!("expected {operation}: {kind}, got {reply:?}"))
            }
        }
    }
}

/// Tries every case; names each that is wrong.
pub(super) async fn try_all(bench: &Bench, cases: impl IntoIterator<Item = Case>) {
    let mut wrong = String::new();
    for case in cases {
        if let Some(text) = case.wrong_on(bench).await {
            wrong += &format!("\n    {}: {text}", case.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
