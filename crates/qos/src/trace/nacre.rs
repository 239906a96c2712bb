//! Reads nacre's own trace format. Unlike the others, it names objects.
//!
//! The first line is `nacre trace 1`. Each other line is `SECONDS read|write BYTES OBJECT`, with
//! one space between fields. The object name may contain spaces. Empty lines and lines that begin
//! with `#` are ignored. `samples/nacre.trace` is an example.

use nacre_object::{Error, Result};

use super::fields::{kind, seconds, size};
use super::reader::{Line, LineReader, RawLocation, RawRecord};

/// The first line of a trace.
pub(super) const HEADER: &str = "nacre trace 1";

/// Reads the lines.
#[derive(Default)]
pub(super) struct Lines {
    has_header: bool,
}

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        if !self.has_header {
            self.has_header = line == HEADER;
            return match self.has_header {
                true => Ok(Line::Nothing),
                false => Err(Error::invalid(format!("the first line is not {HEADER:?}"))),
            };
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(Line::Nothing);
        }
        let fields: Vec<_> = line.splitn(4, ' ').collect();
        let [at, kind_, bytes, object] = fields[..] else {
            return Err(Error::invalid(format!(
                "the line has {} fields instead of 4",
                fields.len()
            )));
        };
        Ok(Line::Request(RawRecord {
            at: seconds(at)?,
            kind: kind(kind_, "read", "write")?,
            bytes: size(bytes)?,
            location: RawLocation::Object(object),
        }))
    }
}
