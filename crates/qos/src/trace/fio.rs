//! Reads the traces that fio writes with `write_iolog`.
//!
//! The first line is `fio version 2 iolog` or `fio version 3 iolog`.
//!
//! - Version 2: a line is `FILE ACTION [OFFSET LENGTH]`. A line `FILE wait MICROSECONDS` is the
//!   time from the previous `wait` to the requests after it.
//! - Version 3: a line begins with the microseconds since fio started. There is no `wait`.

use std::time::Duration;

use nacre_object::{Error, Result};

use super::fields::{number, size, ticks};
use super::reader::{Line, LineReader, RawLocation, RawRecord};
use crate::IoKind;

/// A version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Times are waits between requests.
    Two,
    /// Each line has its time.
    Three,
}

/// The version that a first line names.
pub(super) fn version(line: &str) -> Option<Version> {
    match line.trim_end() {
        "fio version 2 iolog" => Some(Version::Two),
        "fio version 3 iolog" => Some(Version::Three),
        _ => None,
    }
}

/// Reads the lines.
#[derive(Default)]
pub(super) struct Lines {
    version: Option<Version>,
    /// The sum of the waits so far.
    waited: Duration,
    requests: u64,
}

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        let Some(version) = self.version else {
            self.version = Some(self::version(line).ok_or_else(|| {
                Error::invalid(
                    "the first line is not \"fio version 2 iolog\" or \"fio version 3 iolog\"",
                )
            })?);
            return Ok(Line::Nothing);
        };
        let mut fields = line.split_ascii_whitespace();
        let at = match version {
            Version::Two => self.waited,
            Version::Three => ticks(next(&mut fields, "time")?, Duration::from_micros(1))?,
        };
        let file = next(&mut fields, "file")?;
        let kind = match (next(&mut fields, "action")?, version) {
            ("read", _) => IoKind::Read,
            ("write", _) => IoKind::Write,
            ("wait", Version::Two) => {
                let wait = ticks(next(&mut fields, "wait")?, Duration::from_micros(1))?;
                self.waited = self.waited.checked_add(wait).ok_or_else(too_late)?;
                return Ok(Line::Nothing);
            }
            ("add" | "open" | "close" | "sync" | "datasync" | "trim", _) => {
                return Ok(Line::Nothing);
            }
            (action, _) => {
                return Err(Error::invalid(format!(
                    "there is no action {action:?} in this version of iologs"
                )));
            }
        };
        let offset = number(next(&mut fields, "offset")?, "offset")?;
        let bytes = size(next(&mut fields, "length")?)?;
        self.requests += 1;
        let location = RawLocation::Block { volume: file, offset };
        Ok(Line::Request(RawRecord { at, kind, bytes, location }))
    }

    fn end(&self) -> Result<()> {
        if self.version == Some(Version::Two) && self.waited.is_zero() && self.requests > 1 {
            return Err(Error::invalid(
                "the iolog has no waits, so it does not say when requests arrived",
            )
            .hint("write it with fio 3.31 or later, which records the time of each request"));
        }
        Ok(())
    }
}

fn next<'a>(fields: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<&'a str> {
    fields.next().ok_or_else(|| Error::invalid(format!("the line has no {what}")))
}

fn too_late() -> Error {
    Error::invalid("the sum of the waits is too large")
}
