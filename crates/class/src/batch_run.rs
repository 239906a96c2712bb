//! Runs a batch: many requests for one Luau method in one call.
//!
//! A loop in the VM runs one request after the other. If a request fails, the loop ends. If that
//! request changed nothing and the budget is not used up, the host refuses only this request and
//! starts the loop again at the next one. Otherwise the whole call fails.

use std::cell::Cell;

use bytes::Bytes;
use mlua::Function;
use nacre_object::{Error, Result};
use nacre_script::Run;

use crate::invocation::Invocation;
use nacre_calls::refusal;

/// A running batch.
pub(crate) struct BatchRun<'a, 'vm> {
    invocation: &'a Invocation<'a>,
    run: &'a Run<'vm>,
    /// The function of `dispatch.luau` that calls the handler for each request.
    call_batch: &'a Function,
    /// Whether the present request has changed the object.
    has_written: &'a Cell<bool>,
}

impl<'a, 'vm> BatchRun<'a, 'vm> {
    pub fn new(
        invocation: &'a Invocation<'a>,
        run: &'a Run<'vm>,
        call_batch: &'a Function,
        has_written: &'a Cell<bool>,
    ) -> Self {
        Self { invocation, run, call_batch, has_written }
    }

    /// Runs the requests and returns the outcome of each. Calls `refused` with the error of each
    /// refused request.
    ///
    /// # Errors
    /// An error that fails the whole batch.
    pub fn finish(self, mut refused: impl FnMut(Error)) -> Result<Bytes> {
        let requests = &self.invocation.requests;
        while let Err(error) = self.carry_on() {
            if !requests.has_begun() || self.has_written.get() || self.run.exceeded().is_some() {
                return Err(error);
            }
            let error = self.invocation.at_own_lines(error);
            requests.answer(refusal(&error), error.message().as_bytes());
            refused(error);
        }
        Ok(requests.finish())
    }

    /// Runs the remaining requests, up to the first one that fails.
    fn carry_on(&self) -> Result<()> {
        let handler = self.invocation.handler_in(self.run)?;
        let arguments = (self.run.chunk(), self.run.globals(), handler);
        let outcome = self.run.call_for(self.call_batch, arguments);
        if self.invocation.requests.has_begun() {
            // The chunk has run.
            self.run.keep();
        }
        outcome
    }
}
