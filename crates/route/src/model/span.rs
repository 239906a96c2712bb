//! Ranges of bytes, as rules and IOs name them.

use std::fmt;

use nacre_object::{Error, Result};

/// A non-empty range of bytes `start..end` of an object. If the end is [`Span::END`], the range is
/// open: it also contains bytes that are appended later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// The end of an open range.
    pub const END: u64 = u64::MAX;
    /// Every byte of a stream.
    pub const WHOLE: Self = Self { start: 0, end: Self::END };

    /// The bytes from `start` up to but excluding `end`; `None` if there are none.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// First byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// The number of bytes; for an open range, up to [`Span::END`].
    pub const fn length(self) -> u64 {
        self.end - self.start
    }

    /// The bytes that are in both ranges.
    pub fn intersect(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Whether they have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.intersect(other).is_some()
    }

    /// Whether every byte of `other` is in this one.
    pub fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Parses `START..END` or `START..`. Numbers of bytes may end in `KiB`, `MiB` or `GiB`.
    ///
    /// # Errors
    /// `Invalid` for any other string, and for an empty range.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!("{text:?} is no range of bytes: {why}"))
                .hint("write for example 0..512KiB, or 4096.. for everything from there on")
        };
        let (start, end) = text.split_once("..").ok_or_else(|| wrong("it has no '..'"))?;
        let number = |text| parse_bytes(text).ok_or_else(|| wrong("a bound is no number of bytes"));
        let start = if start.is_empty() { 0 } else { number(start)? };
        let end = if end.is_empty() { Self::END } else { number(end)? };
        Self::new(start, end).ok_or_else(|| wrong("it is empty"))
    }
}

/// Units of sizes, largest first.
const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

fn parse_bytes(text: &str) -> Option<u64> {
    for (unit, bytes) in UNITS {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<u64>().ok()?.checked_mul(bytes);
        }
    }
    text.parse().ok()
}

/// A number of bytes with the largest unit that divides it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, bytes): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*bytes);
        match UNITS.iter().find(fits) {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", Bytes(self.start))?;
        match self.end {
            Self::END => Ok(()),
            end => write!(f, "{}", Bytes(end)),
        }
    }
}
