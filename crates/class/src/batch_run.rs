//! A batch that a Luau method carries out: what one call of it is, request after request.
//!
//! The VM goes from one request to the next by itself, and is entered again only after one that failed. A request
//! is refused by itself as long as it changed nothing and the budget lasts; else what went wrong is about the
//! whole call.

use std::cell::{Cell, RefCell};

use bytes::{Bytes, BytesMut};
use mlua::{Function, Lua, Value};
use nacre_object::{CallReply, Error, Result};
use nacre_script::{Run, raise};

use crate::batch::{Batch, Progress, refusal};
use crate::buffer_list::{append_data, data_of};
use crate::invocation::Invocation;

/// A batch under way.
pub(crate) struct BatchRun<'a, 'vm> {
    invocation: &'a Invocation<'a>,
    run: &'a Run<'vm>,
    /// What calls the handler for each request, of `dispatch.luau`.
    call_batch: &'a Function,
    /// Whether the request that is carried out changed something.
    has_written: &'a Cell<bool>,
    progress: RefCell<Progress<'a>>,
}

impl<'a, 'vm> BatchRun<'a, 'vm> {
    pub fn new(
        invocation: &'a Invocation<'a>,
        batch: &'a Batch,
        run: &'a Run<'vm>,
        call_batch: &'a Function,
        has_written: &'a Cell<bool>,
    ) -> Self {
        let progress = RefCell::new(Progress::of(batch));
        Self { invocation, run, call_batch, has_written, progress }
    }

    /// Carries out the requests and answers their outcomes; tells `refused` why each was that was refused.
    ///
    /// # Errors
    /// What is about them all.
    pub fn finish(self, mut refused: impl FnMut(Error)) -> Result<Bytes> {
        while let Err(error) = self.carry_on() {
            if self.has_written.get() || self.run.exceeded().is_some() {
                return Err(error);
            }
            let error = self.invocation.at_own_lines(error);
            self.progress.borrow_mut().answer(refusal(&error));
            refused(error);
        }
        Ok(self.progress.into_inner().finish())
    }

    /// Carries out what is left, up to the first request that fails.
    fn carry_on(&self) -> Result<()> {
        let outcome = self.run.lua().scope(|scope| {
            let next_request =
                scope.create_function(|lua: &Lua, answered| self.next(lua, answered))?;
            let handler = self.invocation.handler;
            let arguments = (self.run.chunk(), self.run.globals(), handler, next_request);
            Ok(self.run.call_for(self.call_batch, arguments))
        });
        outcome.map_err(|error| self.run.explain(&error))?
    }

    /// Takes what a request came to and hands out the next; nothing was answered before the first.
    fn next(
        &self,
        lua: &Lua,
        (status, output): (Value, Value),
    ) -> mlua::Result<Option<mlua::LuaString>> {
        let mut progress = self.progress.borrow_mut();
        if status.is_nil() {
            // The chunk was executed.
            self.run.keep();
        } else {
            progress.answer(self.answer(&status, &output).map_err(raise)?);
        }
        self.has_written.set(false);
        progress.next().map(|request| lua.create_string(request)).transpose()
    }

    /// What a request came to.
    fn answer(&self, status: &Value, output: &Value) -> Result<CallReply> {
        match self.invocation.status_of(self.run, status)? {
            status @ 0.. => {
                let output = pieces(output).map_err(|error| self.run.explain(&error))?;
                Ok(CallReply { status, output })
            }
            failed => Err(self.invocation.failure(failed)),
        }
    }
}

/// The output of a request: data, or a list of pieces of it.
fn pieces(output: &Value) -> mlua::Result<Bytes> {
    let Value::Table(list) = output else { return Ok(data_of(output).unwrap_or_default()) };
    let mut bytes = BytesMut::new();
    for piece in list.sequence_values::<Value>() {
        append_data(&mut bytes, &piece?);
    }
    Ok(bytes.freeze())
}
