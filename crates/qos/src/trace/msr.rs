//! Reads the block traces of MSR Cambridge:
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! The timestamp counts steps of 100 ns since the year 1601. Offset and size are in bytes.

use std::time::Duration;

use nacre_object::Result;

use super::fields::{comma_fields, kind, number, size, ticks};
use super::reader::{Line, LineReader, RawLocation, RawRecord};

/// Reads the lines.
pub(super) struct Lines;

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        let [timestamp, _, _, type_, offset, size_, _] = comma_fields(line)?;
        if timestamp.eq_ignore_ascii_case("timestamp") {
            return Ok(Line::Nothing);
        }
        Ok(Line::Request(RawRecord {
            at: ticks(timestamp, Duration::from_nanos(100))?,
            kind: kind(type_, "Read", "Write")?,
            bytes: size(size_)?,
            location: RawLocation::Block {
                volume: volume(line),
                offset: number(offset, "offset")?,
            },
        }))
    }
}

/// The host and the disk together name the volume: `usr,0`.
fn volume(line: &str) -> &str {
    let mut commas = line.match_indices(',').map(|(at, _)| at);
    match (commas.next(), commas.nth(1)) {
        (Some(first), Some(third)) => &line[first + 1..third],
        _ => line,
    }
}
