//! Runs one call of a Luau method, from its input to its status.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use mlua::{AnyUserData, LuaString, Table, Value};
use nacre_brados::LineMap;
use nacre_object::{
    CallContext, CallReply, Error, ErrorKind, FaultSite, ObjectView, Result, Status,
};
use nacre_program::Limit;
use nacre_script::{Run, Script, Terms};

use crate::arguments::whole;
use crate::batch_run::BatchRun;
use crate::buffer_list::{BufferList, BufferLists, data_of};
use crate::calling::Calling;
use crate::class_vm::{ClassVm, Dispatch, joined, length_of, with_vm};
use crate::fault_sink::{FaultSink, ProgramFault};
use crate::language::at_program_lines;
use crate::requests::Requests;
use nacre_object::MethodAccess;

/// The method to run, and its terms.
pub(crate) struct Invocation<'a> {
    pub script: &'a Script,
    /// The program's own lines, if the script was made of one in another language.
    pub lines: Option<&'a LineMap>,
    /// The global to call; empty to execute the chunk alone.
    pub handler: &'a str,
    pub requests: Requests,
    /// The access that the method registered when the program was made live. The present run of the
    /// chunk can make it read-only, but not writable.
    pub access: MethodAccess,
    pub terms: Terms<'a>,
    pub context: &'a CallContext,
    pub sink: &'a dyn FaultSink,
}

/// What a run reports besides its outcome.
#[derive(Default)]
struct Found {
    /// The limit of the budget that the run exceeded.
    limit: Cell<Option<Limit>>,
    /// Why requests of a batch were refused, one by one.
    refused: RefCell<Vec<Error>>,
}

impl Invocation<'_> {
    /// Runs the chunk, calls the handler, and turns the result into a status or an error.
    pub fn run(self, view: &mut dyn ObjectView) -> Result<CallReply> {
        let (access, has_written) = (Cell::new(self.access), Cell::new(false));
        let calling = Calling {
            object: Some(&mut *view),
            requests: &self.requests,
            context: self.context,
            access: &access,
            has_written: &has_written,
            script: self.script,
            sink: self.sink,
        };
        let found = Found::default();
        let outcome = calling.during(|| with_vm(|vm| self.run_in(vm, &has_written, &found)));
        let outcome = outcome.map_err(|error| self.at_own_lines(error));
        found.refused.take().iter().for_each(|error| self.report(error, None));
        if let Err(error) = &outcome {
            self.report(error, found.limit.get());
        }
        match outcome? {
            reply if reply.status >= 0 => Ok(reply),
            failed => Err(self.failure(failed.status)),
        }
    }

    fn run_in(
        &self,
        vm: &mut ClassVm,
        has_written: &Cell<bool>,
        found: &Found,
    ) -> Result<CallReply> {
        let run = vm.vm.start(self.script, &self.terms)?;
        let reply = match (self.requests.is_batch(), self.script.is_kept()) {
            (true, _) => {
                let batch = BatchRun::new(self, &run, &vm.library.dispatch.call_batch, has_written);
                let answers = batch.finish(|error| found.refused.borrow_mut().push(error));
                answers.map(|output| CallReply { status: 0, output })
            }
            (false, true) => self.call_kept(&run, &vm.library.dispatch),
            (false, false) => self.call(&run, &vm.library.lists, &vm.library.dispatch),
        };
        found.limit.set(run.exceeded());
        let reply = reply?;
        self.check_output(&run, reply.output.len())?;
        Ok(reply)
    }

    /// The one request of a script that is kept.
    fn call_kept(&self, run: &Run<'_>, dispatch: &Dispatch) -> Result<CallReply> {
        let handler = self.handler_in(run)?;
        let arguments = (run.chunk(), run.globals(), handler);
        let (status, reply): (Value, Value) = run.call_for(&dispatch.call_kept, arguments)?;
        run.keep();
        let output = match &reply {
            Value::Table(pieces) => self.joined(run, pieces)?,
            reply => data_of(reply).unwrap_or_default(),
        };
        Ok(CallReply { status: self.status_of(run, &status)?, output })
    }

    /// Joins a reply of several pieces, if the run may return so many bytes.
    fn joined(&self, run: &Run<'_>, pieces: &Table) -> Result<Bytes> {
        let broken = |error: mlua::Error| run.explain(&error);
        let length = length_of(pieces).map_err(broken)?;
        self.check_output(run, length)?;
        joined(pieces, length).map_err(broken)
    }

    fn check_output(&self, run: &Run<'_>, bytes: usize) -> Result<()> {
        run.check_output(bytes).map_err(|error| error.with_fault(self.site()))
    }

    fn call(&self, run: &Run<'_>, lists: &BufferLists, dispatch: &Dispatch) -> Result<CallReply> {
        let broken = |error: mlua::Error| run.explain(&error);
        let handler = self.handler_in(run)?;
        let input = lists.make(run.lua(), self.requests.current().clone()).map_err(broken)?;
        let output = lists.make(run.lua(), Bytes::new()).map_err(broken)?;
        let arguments = (run.chunk(), run.globals(), handler, input, &output);
        let returned: Value = run.call_for(&dispatch.call, arguments)?;
        Ok(CallReply { status: self.status_of(run, &returned)?, output: taken(&output) })
    }

    /// Returns the handler's name as a VM string. Make the string before the call of a VM function:
    /// such a call runs under the memory limit, within which this allocation could fail.
    pub fn handler_in(&self, run: &Run<'_>) -> Result<LuaString> {
        run.lua().create_string(self.handler).map_err(|error| run.explain(&error))
    }

    /// An error with the program's own lines in place of its script's.
    pub fn at_own_lines(&self, error: Error) -> Error {
        match self.lines {
            Some(lines) => at_program_lines(error, lines),
            None => error,
        }
    }

    /// The handler's last result as a status.
    fn status_of(&self, run: &Run<'_>, returned: &Value) -> Result<Status> {
        let number = match returned {
            Value::Integer(number) => return self.status_in_range(*number),
            Value::Number(number) => Some(*number),
            Value::String(_) => {
                let number = run.lua().coerce_number(returned.clone());
                number.map_err(|error| run.explain(&error))?
            }
            _ => None,
        };
        match number.and_then(whole) {
            Some(number) => self.status_in_range(number),
            None => Err(self.no_status(&format!("a {}", returned.type_name()))),
        }
    }

    fn status_in_range(&self, number: i64) -> Result<Status> {
        Status::try_from(number).map_err(|_| self.no_status(&number.to_string()))
    }

    fn no_status(&self, returned: &str) -> Error {
        Error::fault_at(
            self.site(),
            format!("{:?} returned {returned} instead of a status", self.handler),
        )
        .hint("return nothing or a whole number that fits 32 bits")
    }

    /// The error of a method that returned a negative status.
    fn failure(&self, status: Status) -> Error {
        let error = Error::from_status(status, format!("{:?} returned {status}", self.handler));
        match error.kind() {
            ErrorKind::Fault => error.with_fault(self.site()),
            _ => error,
        }
    }

    /// Reports an error that is the program's own fault, not an error of its object.
    fn report(&self, error: &Error, limit: Option<Limit>) {
        if !matches!(error.kind(), ErrorKind::Fault | ErrorKind::Exhausted) {
            return;
        }
        self.sink.fault(&ProgramFault {
            program: self.script.name(),
            version: self.script.version(),
            method: self.handler,
            line: error.fault().and_then(|site| site.line),
            error,
            limit,
        });
    }

    fn site(&self) -> FaultSite {
        FaultSite {
            program: self.script.name().to_owned(),
            version: self.script.version(),
            ..FaultSite::default()
        }
    }
}

/// Takes the bytes out of the output's buffer list. The script may still have a reference to the
/// list, but it no longer runs.
fn taken(output: &AnyUserData) -> Bytes {
    let mut list =
        output.borrow_mut::<BufferList>().expect("it was made a buffer list and nobody runs");
    list.share()
}
