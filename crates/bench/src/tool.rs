//! Programs of the system that a bench runs.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nacre_object::{Error, Result};

/// Runs a program to its end, and returns what it printed. The call blocks, and Ctrl-C does not
/// reach the program, so it never stops half-way.
///
/// # Errors
/// `Unavailable` if the program cannot be run or fails. The error quotes the program's error
/// output.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let name = command.get_program().to_string_lossy();
    let failed = |cause: String| Error::unavailable(format!("{name}: {}", cause.trim()));
    let output = output.map_err(|cause| failed(cause.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
