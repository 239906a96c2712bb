//! The fields of a line of a trace.

use std::time::Duration;

use nacre_object::{Error, Result};

use crate::IoKind;
use crate::limits::MAX_TRACE_REQUEST_BYTES;

/// Splits a line at commas into as many fields as the format has.
pub(super) fn comma_fields<const N: usize>(line: &str) -> Result<[&str; N]> {
    let fields: Vec<_> = line.split(',').map(str::trim).collect();
    let count = fields.len();
    fields
        .try_into()
        .map_err(|_| Error::invalid(format!("the line has {count} fields instead of {N}")))
}

/// A whole number.
pub(super) fn number(text: &str, what: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::invalid(format!("the {what} {text:?} is no whole number")))
}

/// The size of a request.
pub(super) fn size(text: &str) -> Result<u64> {
    checked_size(number(text, "size")?)
}

/// The size of a request that was given in units of `unit` bytes.
pub(super) fn size_in(text: &str, unit: u64) -> Result<u64> {
    checked_size(number(text, "size")?.saturating_mul(unit))
}

/// This size, if a request may have it.
pub(super) fn checked_size(bytes: u64) -> Result<u64> {
    match bytes <= MAX_TRACE_REQUEST_BYTES {
        true => Ok(bytes),
        false => Err(Error::invalid(format!(
            "the request has {bytes} bytes; the longest may have {MAX_TRACE_REQUEST_BYTES}"
        ))),
    }
}

/// A number of sectors as bytes.
pub(super) fn sectors(text: &str, what: &str) -> Result<u64> {
    let sectors = number(text, what)?;
    sectors
        .checked_mul(SECTOR_BYTES)
        .ok_or_else(|| Error::invalid(format!("the {what} of {sectors} sectors is too large")))
}

/// Parses the kind of a request: the word `read` or the word `write`, in upper or lower case.
pub(super) fn kind(text: &str, read: &str, write: &str) -> Result<IoKind> {
    match text {
        text if text.eq_ignore_ascii_case(read) => Ok(IoKind::Read),
        text if text.eq_ignore_ascii_case(write) => Ok(IoKind::Write),
        _ => Err(Error::invalid(format!("the type {text:?} is neither {read} nor {write}"))),
    }
}

/// A time in seconds, with up to nine decimals.
pub(super) fn seconds(text: &str) -> Result<Duration> {
    let wrong = || {
        Error::invalid(format!(
            "the time {text:?} is not a number of seconds with at most nine decimals"
        ))
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() > 9 || !is_digits(fraction) || text.ends_with('.') {
        return Err(wrong());
    }
    let nanos = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    Ok(Duration::new(number(whole, "time").map_err(|_| wrong())?, nanos))
}

/// A time in steps of `step`. A second is a whole number of steps.
pub(super) fn ticks(text: &str, step: Duration) -> Result<Duration> {
    let ticks = number(text, "time")?;
    let per_second = 1_000_000_000 / u64::from(step.subsec_nanos());
    let nanos = (ticks % per_second) as u32 * step.subsec_nanos();
    Ok(Duration::new(ticks / per_second, nanos))
}

/// The unit in which block traces count.
pub(super) const SECTOR_BYTES: u64 = 512;
