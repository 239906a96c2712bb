//! Converts errors between Rust and the VM, in both directions.
//!
//! From Rust to the VM: [`raise`] wraps an [`Error`] so that a host function can fail with it. A
//! script's `pcall` returns it as `false, negative_errno, message`. From the VM to Rust:
//! [`explain`] turns the error that ended a run into an [`Error`]. An error of [`raise`] keeps its
//! kind; any other becomes a `Fault`. In both cases the line and the traceback in the script are
//! added.

use std::fmt;

use nacre_object::{Error, FaultSite};

use crate::Script;

#[derive(Debug)]
struct Raised(Error);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Raised {}

/// The error with which a host function makes the running script fail with `error`.
pub fn raise(error: Error) -> mlua::Error {
    mlua::Error::external(Raised(error))
}

/// The error that was passed to [`raise`], if `error` came from there.
pub fn raised(error: &mlua::Error) -> Option<&Error> {
    match error {
        mlua::Error::CallbackError { cause, .. }
        | mlua::Error::BadArgument { cause, .. }
        | mlua::Error::WithContext { cause, .. } => raised(cause),
        mlua::Error::ExternalError(inner) => {
            inner.downcast_ref::<Raised>().map(|Raised(error)| error)
        }
        _ => None,
    }
}

/// The message that a script gets for a caught error that [`raise`] did not make.
pub(crate) fn cause_text(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => cause_text(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::ExternalError(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

/// Why a run of `script` ended.
pub(crate) fn explain(error: &mlua::Error, script: &Script) -> Error {
    if let mlua::Error::MemoryError(_) = error {
        return Error::exhausted("the script ran out of memory")
            .hint("keep less data at a time, or divide the work among several calls");
    }
    let (text, traceback) = match error {
        mlua::Error::CallbackError { traceback, cause } => {
            (cause_text(cause), traceback.split_once(TRACEBACK).map_or("", |(_, frames)| frames))
        }
        mlua::Error::RuntimeError(text) => match text.rsplit_once(TRACEBACK) {
            Some((message, frames)) => (message.trim_end().to_owned(), frames),
            None => (text.clone(), ""),
        },
        other => (other.to_string(), ""),
    };
    let mut site = site_of(script, traceback);
    let (line, message) = split_position(script, &text);
    site.line = line.or(site.line);
    match raised(error) {
        Some(raised) => raised.clone().with_status(raised.status()).with_fault(site),
        None => Error::fault_at(site, said(message.trim_start_matches(PRELUDE_POSITION))),
    }
}

/// The message of an error that a program raised. If the program raised a table or a function, the
/// VM's message has only its address; the message returned then says that `error` takes a string.
fn said(message: &str) -> String {
    match message.split_once(": 0x") {
        Some((value, address))
            if !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            format!("the program raised a {value}; `error` takes a string that says what is wrong")
        }
        _ => message.to_owned(),
    }
}

/// The position in `script` of the innermost of its frames in a traceback.
pub(crate) fn site_of(script: &Script, traceback: &str) -> FaultSite {
    let traceback = frames_of(script, traceback);
    let (line, _) = split_position(script, &traceback);
    FaultSite { program: script.name().to_owned(), version: script.version(), line, traceback }
}

const TRACEBACK: &str = "stack traceback:";

/// The prefix of the VM's messages about errors in our prelude.
const PRELUDE_POSITION: &str = "prelude:0: ";

/// Selects from a traceback the frames of the script, one a line, innermost first. Leaves out
/// frames of the host's library.
fn frames_of(script: &Script, traceback: &str) -> String {
    let own = |frame: &&str| {
        frame.strip_prefix(script.name()).is_some_and(|rest| rest.starts_with(':'))
            || frame.starts_with("...")
    };
    traceback.lines().map(str::trim).filter(own).collect::<Vec<_>>().join("\n")
}

/// Splits `NAME:LINE: MESSAGE` or `NAME:LINE in …`, as the VM writes positions in this script.
fn split_position<'a>(script: &Script, text: &'a str) -> (Option<u32>, &'a str) {
    let Some(rest) = text.strip_prefix(script.name()).and_then(|rest| rest.strip_prefix(':'))
    else {
        return (None, text);
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    match rest[..digits].parse() {
        Ok(line) => (Some(line), rest[digits..].trim_start_matches(':').trim_start()),
        Err(_) => (None, text),
    }
}
