//! Reads the traces of PriorityMeister: `arrival,size,type`.
//!
//! The arrival is in nanoseconds, decimal. The size is in bytes, hexadecimal, with or without `0x`.
//! The type is `DiskRead` or `DiskWrite`. A line names no object, so the caller must know the
//! placement from elsewhere.

use std::time::Duration;

use nacre_object::{Error, Result};

use super::fields::{checked_size, comma_fields, kind, ticks};
use super::reader::{Line, LineReader, RawLocation, RawRecord};

/// Reads the lines.
pub(super) struct Lines;

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        let [arrival, size, type_] = comma_fields(line)?;
        Ok(Line::Request(RawRecord {
            at: ticks(arrival, Duration::from_nanos(1))?,
            kind: kind(type_, "DiskRead", "DiskWrite")?,
            bytes: hexadecimal(size)?,
            location: RawLocation::Unknown,
        }))
    }
}

fn hexadecimal(text: &str) -> Result<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // `from_str_radix` would take a sign.
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = is_hexadecimal.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    let wrong = || Error::invalid(format!("the size {text:?} is no hexadecimal number"));
    checked_size(size.ok_or_else(wrong)?)
}
