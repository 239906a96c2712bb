//! One call of a Luau method, from input to status.

use std::cell::{Cell, RefCell};

use bytes::{Bytes, BytesMut};
use mlua::{AnyUserData, Lua, Value};
use nacre_brados::LineMap;
use nacre_object::{
    CallContext, CallReply, Error, ErrorKind, FaultSite, ObjectView, Result, Status,
};
use nacre_script::{Limit, Run, Script, Terms, raise};

use crate::arguments::whole;
use crate::batch::{Batch, Progress, refusal};
use crate::buffer_list::{BufferList, BufferLists, append_data, data_of};
use crate::calling::Calling;
use crate::class_vm::{ClassVm, Dispatch, with_vm};
use crate::fault_sink::{FaultSink, ProgramFault};
use crate::language::at_program_lines;
use crate::native::MethodAccess;

/// What to run, and on what terms.
pub(crate) struct Invocation<'a> {
    pub script: &'a Script,
    /// The program's own lines, if the script was made of one in another language.
    pub lines: Option<&'a LineMap>,
    /// The global to call; empty to execute the chunk alone.
    pub handler: &'a str,
    pub input: Input,
    /// What the program declared when it was made live; what it registers now may restrict further.
    pub access: MethodAccess,
    pub terms: Terms<'a>,
    pub context: &'a CallContext,
    pub sink: &'a dyn FaultSink,
}

/// What a method is asked.
pub(crate) enum Input {
    One(Bytes),
    Batch(Batch),
}

/// What there is to tell of a run besides its outcome.
#[derive(Default)]
struct Found {
    /// Which part of the budget it exceeded.
    limit: Cell<Option<Limit>>,
    /// Why requests of a batch were refused, one by one.
    refused: RefCell<Vec<Error>>,
}

impl Invocation<'_> {
    /// Executes the chunk, calls the handler, and judges what came of it.
    pub fn run(self, view: &mut dyn ObjectView) -> Result<CallReply> {
        let (access, has_written) = (Cell::new(self.access), Cell::new(false));
        let calling = Calling {
            object: Some(&mut *view),
            context: self.context,
            access: &access,
            has_written: &has_written,
            script: self.script,
            sink: self.sink,
        };
        let found = Found::default();
        let outcome = calling.during(|| with_vm(|vm| self.run_in(vm, &has_written, &found)));
        let outcome = outcome.map_err(|error| self.at_own_lines(error));
        if !view.is_rehearsal() {
            found.refused.take().iter().for_each(|error| self.report(error, None));
            if let Err(error) = &outcome {
                self.report(error, found.limit.get());
            }
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
        let reply = match &self.input {
            Input::One(input) => self.call(&run, &vm.lists, &vm.dispatch, input),
            Input::Batch(batch) => self.call_each(batch, &vm.dispatch, &run, has_written, found),
        };
        found.limit.set(run.exceeded());
        let reply = reply?;
        run.check_output(reply.output.len()).map_err(|error| error.with_fault(self.site()))?;
        Ok(reply)
    }

    /// The requests of a batch, each with its own outcome, unless what went wrong is about them all. The
    /// VM goes from one to the next by itself, and is entered again only after one that failed.
    fn call_each(
        &self,
        batch: &Batch,
        dispatch: &Dispatch,
        run: &Run<'_>,
        has_written: &Cell<bool>,
        found: &Found,
    ) -> Result<CallReply> {
        let progress = RefCell::new(Progress::of(batch));
        while let Err(error) = self.carry_on(&progress, dispatch, run, has_written) {
            if has_written.get() || run.exceeded().is_some() {
                return Err(error);
            }
            let error = self.at_own_lines(error);
            progress.borrow_mut().answer(refusal(&error));
            found.refused.borrow_mut().push(error);
        }
        Ok(CallReply { status: 0, output: progress.into_inner().finish() })
    }

    /// Carries out what is left of a batch, up to the first request that fails.
    fn carry_on(
        &self,
        progress: &RefCell<Progress<'_>>,
        dispatch: &Dispatch,
        run: &Run<'_>,
        has_written: &Cell<bool>,
    ) -> Result<()> {
        let next_request = |lua: &Lua, (status, output): (Value, Value)| {
            let mut progress = progress.borrow_mut();
            if status.is_nil() {
                // The chunk was executed.
                run.keep();
            } else {
                progress.answer(self.answer(run, &status, &output).map_err(raise)?);
            }
            has_written.set(false);
            progress.next().map(|request| lua.create_string(request)).transpose()
        };
        let outcome = run.lua().scope(|scope| {
            let next_request = scope.create_function(next_request)?;
            let arguments = (run.chunk(), run.globals(), self.handler, next_request);
            Ok(run.call_for(&dispatch.call_batch, arguments))
        });
        outcome.map_err(|error| run.explain(&error))?
    }

    /// What a request of a batch came to.
    fn answer(&self, run: &Run<'_>, status: &Value, output: &Value) -> Result<CallReply> {
        match self.status_of(run, status)? {
            status @ 0.. => {
                let output = pieces(output).map_err(|error| run.explain(&error))?;
                Ok(CallReply { status, output })
            }
            failed => Err(self.failure(failed)),
        }
    }

    fn call(
        &self,
        run: &Run<'_>,
        lists: &BufferLists,
        dispatch: &Dispatch,
        input: &Bytes,
    ) -> Result<CallReply> {
        let broken = |error: mlua::Error| run.explain(&error);
        let handler = run.lua().create_string(self.handler).map_err(broken)?;
        let input = lists.make(run.lua(), input.clone()).map_err(broken)?;
        let output = lists.make(run.lua(), Bytes::new()).map_err(broken)?;
        let arguments = (run.chunk(), run.globals(), handler, input, &output);
        let call = if self.script.is_kept() { &dispatch.call_kept } else { &dispatch.call };
        let returned: Value = run.call_for(call, arguments)?;
        run.keep();
        Ok(CallReply { status: self.status_of(run, &returned)?, output: taken(&output) })
    }

    fn at_own_lines(&self, error: Error) -> Error {
        match self.lines {
            Some(lines) => at_program_lines(error, lines),
            None => error,
        }
    }

    /// What the handler returned last as a status.
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
        Error::fault_at(self.site(), format!("{:?} returned {returned} for a status", self.handler))
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

    /// Tells of an error that is the program's own fault, not an answer of its object.
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

/// The output of a request of a batch: data, or a list of pieces of it.
fn pieces(output: &Value) -> mlua::Result<Bytes> {
    let Value::Table(list) = output else { return Ok(data_of(output).unwrap_or_default()) };
    let mut bytes = BytesMut::new();
    for piece in list.sequence_values::<Value>() {
        append_data(&mut bytes, &piece?);
    }
    Ok(bytes.freeze())
}

/// The bytes of the output. The script may have kept the buffer list, but it will not run again.
fn taken(output: &AnyUserData) -> Bytes {
    let mut list =
        output.borrow_mut::<BufferList>().expect("it was made a buffer list and nobody runs");
    list.share()
}
