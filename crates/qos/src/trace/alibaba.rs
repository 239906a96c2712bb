//! Reads the block traces of Alibaba: `device_id,opcode,offset,length,timestamp`.
//!
//! The opcode is `R` or `W`. Offset and length are in bytes, and the timestamp is in microseconds.

use std::time::Duration;

use nacre_object::Result;

use super::fields::{comma_fields, kind, number, size, ticks};
use super::reader::{Line, LineReader, RawLocation, RawRecord};

/// Reads the lines.
pub(super) struct Lines;

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        let [volume, opcode, offset, length, timestamp] = comma_fields(line)?;
        if volume.eq_ignore_ascii_case("device_id") {
            return Ok(Line::Nothing);
        }
        Ok(Line::Request(RawRecord {
            at: ticks(timestamp, Duration::from_micros(1))?,
            kind: kind(opcode, "R", "W")?,
            bytes: size(length)?,
            location: RawLocation::Block { volume, offset: number(offset, "offset")? },
        }))
    }
}
