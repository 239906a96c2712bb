//! The call that runs on this thread: its object, its program and what it may do.
//!
//! Host functions are made once for each VM and exist longer than any call, but they may use an
//! object only during a call. So each thread keeps its running call in a thread-local variable,
//! where host functions find it. A host function that runs outside of a call finds no object and
//! raises an error.

use std::cell::Cell;

use nacre_object::{CallContext, Error, ErrorKind, ObjectView, Result, Status};
use nacre_script::{QuickAnswer, Script, raise};
use scoped_tls_hkt::ReborrowMut;

use crate::fault_sink::{FaultSink, ProgramLog};
use crate::requests::Requests;
use nacre_object::MethodAccess;

/// The running call, on which host functions work.
pub(crate) struct Calling<'a> {
    /// `None` while a program is checked.
    pub object: Option<&'a mut (dyn ObjectView + 'a)>,
    pub requests: &'a Requests,
    pub context: &'a CallContext,
    pub access: &'a Cell<MethodAccess>,
    /// Set once the call has changed the object, or may have changed it.
    pub has_written: &'a Cell<bool>,
    pub script: &'a Script,
    pub sink: &'a dyn FaultSink,
}

scoped_tls_hkt::scoped_thread_local!(static mut CALLING: for<'a> Calling<'a>);

impl<'a, 'b: 'a> ReborrowMut<'a> for Calling<'b> {
    type Result = Calling<'a>;

    fn reborrow_mut(&'a mut self) -> Calling<'a> {
        let object: Option<&'a mut (dyn ObjectView + 'a)> = match &mut self.object {
            Some(object) => Some(&mut **object),
            None => None,
        };
        Calling { object, ..*self }
    }
}

impl Calling<'_> {
    /// Makes this the running call of the thread while `body` runs.
    pub fn during<R>(self, body: impl FnOnce() -> R) -> R {
        CALLING.set(self, body)
    }

    fn object(&mut self) -> Result<&mut dyn ObjectView> {
        match &mut self.object {
            Some(object) => Ok(&mut **object),
            None => Err(Error::unsupported("there is no object while a program is checked")
                .hint("call objclass functions in methods")),
        }
    }
}

/// Reads from the object; its errors are raised in the script.
pub(crate) fn read<R>(body: impl FnOnce(&mut dyn ObjectView) -> Result<R>) -> mlua::Result<R> {
    with_call(|calling| body(calling.object()?))
}

/// Makes one change of the object, if the method may; errors are raised in the script.
pub(crate) fn write<R>(body: impl FnOnce(&mut dyn ObjectView) -> Result<R>) -> mlua::Result<R> {
    with_call(|calling| match calling.access.get() {
        MethodAccess::ReadOnly => Err(Error::denied("a read-only method must not write")
            .hint("register the method without \"readonly\"")),
        MethodAccess::ReadWrite => {
            let outcome = body(calling.object()?);
            if !outcome.as_ref().is_err_and(is_refused_whole) {
                calling.has_written.set(true);
            }
            outcome
        }
    })
}

/// Whether an op that failed with this error has changed nothing. An op that fails with another
/// error, such as `Exhausted` or `Corrupt`, may have made a part of its change.
fn is_refused_whole(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Exists)
}

/// Passes the requests of the call to `ask`.
pub(crate) fn requests<R>(ask: impl FnOnce(&Requests) -> R) -> mlua::Result<R> {
    with_call(|calling| Ok(ask(calling.requests)))
}

/// Records the outcome of one request of a batch; `length` is the length of its reply. If the
/// batch's output has no space for the reply and the request changed nothing, the batch ends before
/// this request. The client then gets the replies so far, and sends the remaining requests again.
pub(crate) fn answer<R: AsRef<[u8]>>(
    status: Status,
    length: usize,
    reply: impl FnOnce() -> mlua::Result<R>,
) -> mlua::Result<()> {
    let is_left = with_call(|calling| {
        Ok(!calling.has_written.get() && !calling.requests.has_room_for(length))
    })?;
    if is_left {
        return requests(Requests::leave);
    }
    let reply = reply()?;
    requests(|requests| requests.answer(status, reply.as_ref()))
}

/// Moves on to the next request of a batch. Returns the method's arguments for that request
/// ([`Requests::shown`]), or nil after the last request.
pub(crate) fn next_request(columns: Option<&[u8]>) -> mlua::Result<QuickAnswer> {
    with_call(|calling| {
        calling.has_written.set(false);
        let is_there = calling.requests.advance();
        Ok(if is_there { calling.requests.shown(columns) } else { QuickAnswer::Nil })
    })
}

/// From here on the call may only read.
pub(crate) fn restrict() -> mlua::Result<()> {
    with_call(|calling| {
        calling.access.set(MethodAccess::ReadOnly);
        Ok(())
    })
}

/// Passes the context of the call to `ask`.
pub(crate) fn context<R>(ask: impl FnOnce(&CallContext) -> R) -> mlua::Result<R> {
    with_call(|calling| Ok(ask(calling.context)))
}

/// The name of the program that runs.
pub(crate) fn program_name() -> mlua::Result<String> {
    with_call(|calling| Ok(calling.script.name().to_owned()))
}

/// Passes a log line of the program to the sink.
pub(crate) fn log(level: i64, text: &str) -> mlua::Result<()> {
    with_call(|calling| {
        let (program, version) = (calling.script.name(), calling.script.version());
        calling.sink.log(&ProgramLog { program, version, level, text });
        Ok(())
    })
}

fn with_call<R>(body: impl FnOnce(&mut Calling<'_>) -> Result<R>) -> mlua::Result<R> {
    if !CALLING.is_set() {
        return Err(raise(Error::unsupported("host functions can only be used during a call")));
    }
    CALLING.with(|mut calling| body(&mut calling)).map_err(raise)
}
