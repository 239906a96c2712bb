//! Files that the commands read.

use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use nacre_object::{Error, Result};
use nacre_qos::trace::{self, Trace, TraceFormat};
use serde::de::DeserializeOwned;

/// Reads a JSON file.
///
/// # Errors
/// `NotFound` if the file cannot be read; `Invalid` if its content is not of the expected form.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let name = path.display();
    serde_json::from_reader(open(path)?).map_err(|cause| {
        Error::invalid(format!("{name} is not a valid {what}: {cause}"))
            .hint("see the format in docs/slo.md")
    })
}

/// Reads a trace.
///
/// # Errors
/// As [`read_json`].
pub(super) fn read_trace(path: &Path, format: Option<TraceFormat>) -> Result<Trace> {
    let name = path.display();
    trace::read(open(path)?, format).map_err(|error| error.during(format!("{name}")))
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(stdin().lock()));
    }
    let name = path.display();
    let file = File::open(path)
        .map_err(|cause| Error::not_found(format!("cannot read {name}: {cause}")))?;
    Ok(Box::new(BufReader::new(file)))
}
