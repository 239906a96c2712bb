//! Reads a trace line by line, within bounds.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

use nacre_object::{Error, Result};

use super::{Trace, TraceFormat, TraceLocation, TraceRecord};
use crate::IoKind;
use crate::limits::{
    MAX_TRACE_LINE_BYTES, MAX_TRACE_NAME_BYTES, MAX_TRACE_NAMES, MAX_TRACE_RECORDS,
};

/// A parsed line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line without a request: a header, a comment, or an event that moves no data.
    Nothing,
    /// A request.
    Request(RawRecord<'a>),
    /// The trace ends here; the remaining lines are something else.
    End,
}

/// A request as it is written in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawRecord<'a> {
    /// The time since a starting point that depends on the format.
    pub(super) at: Duration,
    pub(super) kind: IoKind,
    pub(super) bytes: u64,
    pub(super) location: RawLocation<'a>,
}

/// The location that a request reads or writes, as it is written in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawLocation<'a> {
    Unknown,
    Block { volume: &'a str, offset: u64 },
    Object(&'a str),
}

/// Reads the lines of one format.
pub(super) trait LineReader {
    /// Parses a line. The caller adds the line number to errors.
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>>;

    /// Checks at the end of the input that the trace is complete.
    fn end(&self) -> Result<()> {
        Ok(())
    }
}

/// Reads a trace, and sorts its records by time. If `format` is `None`, the first line decides
/// which format it is.
///
/// # Errors
/// `Invalid`, with the number of the line, if a line is malformed; `Exhausted` if the trace is too
/// long; `Unsupported` if no arrival curve can be computed from traces in this format;
/// `Unavailable` if reading the input fails.
pub fn read(input: impl BufRead, format: Option<TraceFormat>) -> Result<Trace> {
    let mut lines = Lines { input, number: 0, buffer: vec![] };
    let mut first = lines.next_line()?.map(str::to_owned);
    let format = match (format, &first) {
        (Some(format), _) => format,
        (None, Some(line)) => TraceFormat::detect(line).ok_or_else(|| unknown_format(line))?,
        (None, None) => {
            return Err(
                Error::invalid("the trace is empty").hint("record while the tenant sends requests")
            );
        }
    };
    let mut reader = format.reader()?;
    let mut builder = Builder::new(format);
    while let Some(line) = match first.take() {
        Some(line) => Some(line),
        None => lines.next_line()?.map(str::to_owned),
    } {
        let at_line = |error: Error| error.on(format!("line {}", lines.number));
        match reader.read_line(&line).map_err(at_line)? {
            Line::Nothing => {}
            Line::Request(record) => builder.add(&record).map_err(at_line)?,
            Line::End => break,
        }
    }
    reader.end()?;
    builder.finish()
}

fn unknown_format(line: &str) -> Error {
    let names: Vec<_> = TraceFormat::ALL.iter().map(|format| format.as_str()).collect();
    let start: String = line.chars().take(80).collect();
    Error::invalid(format!("the line {start:?} does not say which format the trace has"))
        .on("line 1")
        .hint(format!("name the format: {}", names.join(", ")))
}

/// The lines of a file, each within a maximum length.
struct Lines<R> {
    input: R,
    number: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next_line(&mut self) -> Result<Option<&str>> {
        self.number += 1;
        let here = |error: Error| error.on(format!("line {}", self.number));
        self.buffer.clear();
        let bound = MAX_TRACE_LINE_BYTES as u64 + 1;
        let read = self.input.by_ref().take(bound).read_until(b'\n', &mut self.buffer);
        let count = read.map_err(|cause| {
            here(
                Error::unavailable(format!("the trace cannot be read: {cause}"))
                    .hint("check the file and its disk"),
            )
        })?;
        if count as u64 == bound && !self.buffer.ends_with(b"\n") {
            let message = format!("the line has more than {MAX_TRACE_LINE_BYTES} bytes");
            return Err(here(Error::invalid(message)));
        }
        if count == 0 {
            return Ok(None);
        }
        let text = std::str::from_utf8(&self.buffer)
            .map_err(|_| here(Error::invalid("the line is not UTF-8")))?;
        Ok(Some(text.trim_end_matches(['\n', '\r'])))
    }
}

/// Collects the records of a trace.
struct Builder {
    records: Vec<TraceRecord>,
    names: Vec<Arc<str>>,
    name_bytes: usize,
    by_name: HashMap<Arc<str>, usize>,
    clock_step: Duration,
}

impl Builder {
    fn new(format: TraceFormat) -> Self {
        Self {
            records: vec![],
            names: vec![],
            name_bytes: 0,
            by_name: HashMap::new(),
            clock_step: format.clock_step(),
        }
    }

    fn add(&mut self, record: &RawRecord<'_>) -> Result<()> {
        if self.records.len() == MAX_TRACE_RECORDS {
            let message = format!("the trace has more than {MAX_TRACE_RECORDS} requests");
            return Err(Error::exhausted(message).hint("split the trace"));
        }
        let location = match record.location {
            RawLocation::Unknown => TraceLocation::Unknown,
            RawLocation::Block { volume, offset } => {
                TraceLocation::Block { volume: self.name(volume)?, offset }
            }
            RawLocation::Object(name) => TraceLocation::Object { name: self.name(name)? },
        };
        // A fraction of a second shows that the clock is finer than whole seconds.
        if record.at.subsec_nanos() != 0 && self.clock_step.as_secs() > 0 {
            self.clock_step = Duration::from_nanos(1);
        }
        let RawRecord { at, kind, bytes, .. } = *record;
        self.records.push(TraceRecord { at, kind, bytes, location });
        Ok(())
    }

    fn name(&mut self, name: &str) -> Result<usize> {
        if let Some(index) = self.by_name.get(name) {
            return Ok(*index);
        }
        let bytes = self.name_bytes + name.len();
        if self.names.len() == MAX_TRACE_NAMES || bytes > MAX_TRACE_NAME_BYTES {
            let message = format!(
                "the trace has more than {MAX_TRACE_NAMES} names, or more than {MAX_TRACE_NAME_BYTES} bytes of names"
            );
            return Err(Error::exhausted(message).hint("split the trace"));
        }
        let (index, name) = (self.names.len(), Arc::<str>::from(name));
        self.names.push(Arc::clone(&name));
        self.by_name.insert(name, index);
        self.name_bytes = bytes;
        Ok(index)
    }

    fn finish(mut self) -> Result<Trace> {
        self.records.sort_by_key(|record| record.at);
        let Some(first) = self.records.first().map(|record| record.at) else {
            return Err(Error::invalid("the trace has no requests")
                .hint("record while the tenant sends requests"));
        };
        for record in &mut self.records {
            record.at -= first;
        }
        Ok(Trace { records: self.records, names: self.names, clock_step: self.clock_step })
    }
}
