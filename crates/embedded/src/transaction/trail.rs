//! The tracing spans of a transaction: one for each step in the engine, such as waiting in the
//! queue.
//!
//! A step begins where the one before ended. So the spans cover the whole time from when the
//! transaction was queued until it is synced.

use std::time::Duration;

use nacre_object::{Op, Request};
use nacre_telemetry::{Fields, Trace};

use crate::journal::Spent;
use crate::transaction::commit::PendingReply;

/// The spans of one transaction. If it is not traced, this is empty and costs almost nothing.
#[derive(Debug, Default)]
pub(crate) struct Trail(Option<Box<Steps>>);

#[derive(Debug)]
struct Steps {
    trace: Trace,
    /// When the last step ended.
    since_micros: u64,
}

impl Trail {
    /// Begins a trail, if the current task is traced.
    pub fn begin() -> Self {
        Self(Trace::current().map(|trace| {
            let since_micros = trace.now_micros();
            Box::new(Steps { trace, since_micros })
        }))
    }

    /// A step ends now.
    pub fn step(&mut self, name: &'static str, fields: impl FnOnce() -> Fields) {
        if let Some(steps) = &mut self.0 {
            let now = steps.trace.now_micros();
            steps.end(name, now, fields());
        }
    }
}

impl Steps {
    fn end(&mut self, name: &'static str, at_micros: u64, fields: Fields) {
        let at_micros = at_micros.max(self.since_micros);
        self.trace.record(name, self.since_micros, at_micros, fields);
        self.since_micros = at_micros;
    }
}

/// The trails of the transactions in a group. The last steps of all these trails are equal.
pub(crate) struct Trails<'a>(Vec<&'a mut Steps>);

impl<'a> Trails<'a> {
    /// The trails of the transactions that wait for the group.
    pub fn of(held: &'a mut [PendingReply]) -> Self {
        let steps = held.iter_mut().filter_map(|held| match held {
            PendingReply::Reply { answer, .. } | PendingReply::Failure { answer, .. } => {
                answer.trail.0.as_deref_mut()
            }
            PendingReply::Upkeep(_) => None,
        });
        Self(steps.collect())
    }

    /// A step ends now.
    pub fn step(&mut self, name: &'static str) {
        for steps in &mut self.0 {
            let now = steps.trace.now_micros();
            steps.end(name, now, Fields::default());
        }
    }

    /// The group was written, then synced, just now.
    pub fn synced(&mut self, spent: &Spent) {
        for steps in &mut self.0 {
            let now = steps.trace.now_micros();
            let fields = || Fields::default().with("transactions", spent.transactions);
            let written = now.saturating_sub(micros(spent.sync));
            steps.end("journal write", written, fields().with("bytes", spent.bytes));
            steps.end("sync", now, fields());
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Describes a transaction, for the span of the step that runs it.
pub(crate) fn fields_of(request: &Request) -> Fields {
    let fields = Fields::default().with("object", &*request.header.object.to_string());
    match &request.ops[..] {
        [Op::Call(call)] => {
            let fields = fields.with("method", &*format!("{}.{}", call.class, call.method));
            match call.version {
                Some(version) => fields.with("version", version),
                None => fields,
            }
        }
        [op] => fields.with("op", op.name()),
        ops => fields.with("ops", ops.len() as u64),
    }
    .with("bytes", request.payload_bytes() as u64)
}
