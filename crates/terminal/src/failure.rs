//! Runs a command, prints the error if the command fails, and chooses the exit status.

use std::process::ExitCode;

use nacre_object::{Error, ErrorKind, Result};
use serde_json::json;

use crate::out::{Out, note, note_json};
use crate::{out, reader, signals};

/// Runs a command on a Tokio runtime of its own, and prints its error. Returns the exit status:
///
/// - 0 for success,
/// - 1 for a failure,
/// - 2 for a wrong command line,
/// - 128 plus the signal's number if a signal ended the command.
pub fn run<Work: Future<Output = Result<()>>>(to: Out, work: impl FnOnce() -> Work) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = Error::unavailable(format!("cannot start threads: {error}"));
            return ExitCode::from(fail(&error, to));
        }
    };
    let result = runtime.block_on(async { work().await });
    // A read of standard input that never ends must not keep the command from ending.
    runtime.shutdown_background();
    let status = match result {
        Ok(()) => out::status(),
        Err(_) if reader::is_gone() => 0,
        Err(error) => {
            let failed = fail(&error, to);
            signals::exit_status().unwrap_or(failed)
        }
    };
    ExitCode::from(status)
}

/// Says what went wrong on standard error, and answers the exit status.
pub fn fail(error: &Error, out: Out) -> u8 {
    if out.is_json() {
        let fault = error.fault().map(|site| {
            json!({ "program": site.program, "version": site.version, "line": site.line,
                    "traceback": site.traceback })
        });
        note_json(&json!({ "error": {
            "kind": error.kind().as_str(), "message": error.message(),
            "operation": error.operation(), "object": error.object(),
            "hint": error.hint_text(), "status": error.status(), "fault": fault,
        }}));
    } else {
        note(&format!("nacre: {error}"));
    }
    match error.kind() {
        ErrorKind::Invalid => 2,
        _ => 1,
    }
}
