//! Reads the block traces of Tencent CBS: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! The timestamp is in seconds. Offset and size are in sectors of 512 bytes. The type is 0 for
//! reads and 1 for writes. The published traces have whole seconds only, so no curve can be
//! computed from them.

use nacre_object::Result;

use super::fields::{SECTOR_BYTES, comma_fields, kind, seconds, sectors, size_in};
use super::reader::{Line, LineReader, RawLocation, RawRecord};

/// Reads the lines.
pub(super) struct Lines;

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        let [timestamp, offset, size, type_, volume] = comma_fields(line)?;
        if timestamp.eq_ignore_ascii_case("timestamp") {
            return Ok(Line::Nothing);
        }
        Ok(Line::Request(RawRecord {
            at: seconds(timestamp)?,
            kind: kind(type_, "0", "1")?,
            bytes: size_in(size, SECTOR_BYTES)?,
            location: RawLocation::Block { volume, offset: sectors(offset, "offset")? },
        }))
    }
}
