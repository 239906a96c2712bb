//! One call of a Luau method, from input to status.

use std::sync::Arc;

use bytes::Bytes;
use mlua::{AnyUserData, Function, MultiValue, Value};
use nacre_object::{
    CallContext, CallReply, Error, ErrorKind, FaultSite, ObjectView, Result, Status,
};
use nacre_script::{Run, Script, Terms};

use crate::arguments::whole;
use crate::buffer_list::BufferList;
use crate::calling::{lend, restrict};
use crate::class_vm::{ClassVm, with_vm};
use crate::errno::EOPNOTSUPP;
use crate::fault_sink::{FaultSink, ProgramFault};
use crate::native::MethodAccess;

/// What to run, and on what terms.
pub(crate) struct Invocation<'a> {
    pub script: &'a Script,
    /// The global to call; empty to execute the chunk alone.
    pub handler: &'a str,
    pub input: Bytes,
    /// What the program declared when it was made live; what it registers now may restrict further.
    pub access: MethodAccess,
    pub terms: Terms<'a>,
    pub context: &'a CallContext,
    pub sink: &'a Arc<dyn FaultSink>,
}

impl Invocation<'_> {
    /// Executes the chunk, calls the handler, and judges what came of it.
    pub fn run(self, view: &mut dyn ObjectView) -> Result<CallReply> {
        let program = (self.script.name(), self.script.version());
        let ran = with_vm(|vm| {
            vm.calling.begin(program, Some(self.context), self.sink);
            lend(view, || restrict(self.access, || self.run_in(vm)))
        });
        match ran {
            Ok(reply) if reply.status >= 0 => Ok(reply),
            Ok(failed) => Err(self.failure(failed.status)),
            Err(error) => {
                self.report(&error);
                Err(error)
            }
        }
    }

    fn run_in(&self, vm: &mut ClassVm) -> Result<CallReply> {
        let run = vm.vm.start(self.script, &self.terms)?;
        run.load()?;
        if self.handler.is_empty() {
            return Ok(CallReply::default());
        }
        let Value::Function(handler) = run.global(self.handler)? else {
            let text = format!("{} has no method {:?}", self.script.name(), self.handler);
            return Err(Error::from_status(-EOPNOTSUPP, text));
        };
        let Some(access) = vm.calling.access_of(&handler) else {
            let text = format!("the handler {:?} is not registered", self.handler);
            return Err(Error::fault_at(self.site(), text));
        };
        let make = |bytes| vm.lists.make(run.lua(), bytes).map_err(|error| run.explain(&error));
        let (input, output) = (make(self.input.clone())?, make(Bytes::new())?);
        let returned = restrict(access, || self.call(&run, &handler, input, &output))?;
        let status = self.status_of(&run, &returned)?;
        let output = taken(&output);
        run.check_output(output.len()).map_err(|error| error.with_fault(self.site()))?;
        Ok(CallReply { status, output })
    }

    fn call(
        &self,
        run: &Run<'_>,
        handler: &Function,
        input: AnyUserData,
        output: &AnyUserData,
    ) -> Result<MultiValue> {
        run.call(handler, (input, output))
    }

    /// The last returned value as a status; nothing returned is 0.
    fn status_of(&self, run: &Run<'_>, returned: &MultiValue) -> Result<Status> {
        let Some(last) = returned.back() else { return Ok(0) };
        let number = match last {
            Value::Integer(_) | Value::Number(_) | Value::String(_) => {
                let number = run.lua().coerce_number(last.clone());
                number.map_err(|error| run.explain(&error))?
            }
            _ => None,
        };
        number.and_then(whole).and_then(|status| Status::try_from(status).ok()).ok_or_else(|| {
            let text = format!("a method returned a {} for a status", last.type_name());
            Error::fault_at(self.site(), text).hint("return nothing or a whole number")
        })
    }

    /// The error of a method that returned a negative status.
    fn failure(&self, status: Status) -> Error {
        let text = format!("{:?} returned {status}", self.handler);
        let error = Error::from_status(status, text);
        match error.kind() {
            ErrorKind::Fault => error.with_fault(self.site()),
            _ => error,
        }
    }

    /// Tells of an error that is the program's own fault, not an answer of its object.
    fn report(&self, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Fault | ErrorKind::Exhausted) {
            return;
        }
        self.sink.fault(&ProgramFault {
            program: self.script.name(),
            version: self.script.version(),
            method: self.handler,
            line: error.fault().and_then(|site| site.line),
            error,
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

/// The bytes of the output. The script may have kept the buffer list, but it will not run again.
fn taken(output: &AnyUserData) -> Bytes {
    let mut list =
        output.borrow_mut::<BufferList>().expect("it was made a buffer list and nobody runs");
    list.share()
}
