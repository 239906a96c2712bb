//! Prints the results of a command: text for people, or one JSON document for programs.
//!
//! If the reader of the output goes away (`nacre … | head`), a print fails and the command returns
//! to its callers as after any error. It must not exit at once, because it may have started servers
//! and made folders.

use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;
use nacre_object::{Error, Result};
use serde::Serialize;

use crate::reader;

/// The most characters of a table's cell. A value may have a million characters, and a table pads
/// all other rows to the length of its longest cell.
const MAX_CELL_CHARS: usize = 1024;
// A width to which formatting pads must fit into 16 bits.
const _: () = assert!(MAX_CELL_CHARS <= u16::MAX as usize);

/// Whether the command did its work, and the result is a failure: tests that failed.
static IS_FAILURE: AtomicBool = AtomicBool::new(false);

/// Makes the command end with status 1: it did its work, and the result is a failure.
pub fn end_as_failed() {
    IS_FAILURE.store(true, Ordering::Relaxed);
}

/// The exit status of a command that did its work.
pub fn status() -> u8 {
    u8::from(IS_FAILURE.load(Ordering::Relaxed))
}

/// Where results go, and how.
#[derive(Debug, Clone, Copy)]
pub struct Out {
    json: bool,
    sizes: Sizes,
}

/// How people see sizes. JSON always has exact bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Rounded, with a unit: `1.5 MiB`.
    Rounded,
    /// In bytes: `1572864 B`.
    Exact,
}

impl Out {
    /// Text, or JSON.
    pub fn new(json: bool) -> Self {
        Self { json, sizes: Sizes::Rounded }
    }

    /// Prints sizes like this from here on.
    pub fn with_sizes(self, sizes: Sizes) -> Self {
        Self { sizes, ..self }
    }

    /// A size for people: `1.5 MiB`, or `1572864 B` if exact sizes were asked for.
    pub fn size(self, bytes: u64) -> String {
        match self.sizes {
            Sizes::Rounded => ByteSize(bytes).display().iec().to_string(),
            Sizes::Exact => format!("{bytes} B"),
        }
    }

    /// Whether JSON was asked for.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints a result: `text` to people, `value` to programs, as one line.
    pub fn show(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        if !self.json {
            return self.line(&text());
        }
        let line = serde_json::to_string(value)
            .map_err(|error| Error::invalid(format!("cannot print the result as JSON: {error}")))?;
        self.line(&line)
    }

    /// Prints a result like [`Out::show`], for a command that continues without a reader. Returns
    /// whether the output still has a reader. A missing reader does not count as a failed print
    /// here.
    pub fn show_while_read(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<bool> {
        match self.show(value, text) {
            Err(_) if reader::forget_gone() => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Prints a line as it is; nothing if it is empty.
    pub fn line(self, line: &str) -> Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        written(out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")))
    }

    /// Prints bytes as they are.
    pub fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        written(out.write_all(bytes).and_then(|()| out.flush()))
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(reader::gone()),
        Err(error) => Err(Error::unavailable(format!("cannot write the output: {error}"))),
    }
}

/// Says something to the person at the terminal, beside the output.
pub fn note(text: &str) {
    // The output may have no reader; that must not stop the work.
    let _ = writeln!(io::stderr(), "{}", escaped(text, &['\n', '\t']));
}

/// Like the function above, for programs: prints a line of JSON, in which control characters are
/// escaped.
pub fn note_json(value: &serde_json::Value) {
    let _ = writeln!(io::stderr(), "{}", json_line(value));
}

/// JSON without any control character: its library leaves those past ASCII, and DEL, as they are.
fn json_line(value: &serde_json::Value) -> String {
    let mut line = String::new();
    for each in value.to_string().chars() {
        let written = match each.is_control() {
            true => write!(line, "\\u{:04x}", u32::from(each)),
            false => line.write_char(each),
        };
        written.expect("a String takes everything");
    }
    line
}

/// Bytes as a JSON value: text if they are UTF-8, else `{"hex": …}`.
pub fn json_bytes(bytes: &[u8]) -> serde_json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => serde_json::json!({ "hex": hex(bytes) }),
    }
}

/// Bytes for a terminal: text if they are printable UTF-8, else hexadecimal.
pub fn text_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("0x{}", hex(bytes)),
    }
}

/// Makes a string of unknown origin safe to print on a terminal. It removes control characters, so
/// that the string can neither fake a line of output nor move the cursor.
pub fn printable(text: &str) -> String {
    escaped(text, &[])
}

fn escaped(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for each in text.chars() {
        match each.is_control() && !kept.contains(&each) {
            true => shown.extend(each.escape_default()),
            false => shown.push(each),
        }
    }
    shown
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a time for people: UTC with microseconds, as in logs. A forged record may have a time
/// past the year 9999; such a time is printed as its number.
pub fn utc(micros: u64) -> String {
    let mut text = String::new();
    let moment = UNIX_EPOCH + Duration::from_micros(micros);
    match write!(text, "{}", humantime::format_rfc3339_micros(moment)) {
        Ok(()) => text,
        Err(fmt::Error) => micros.to_string(),
    }
}

/// A table's columns, each as wide as its longest cell.
#[derive(Debug)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Computes the widths of columns from the header and these rows. If a later row has a longer
    /// cell, the cells after it are shifted.
    pub fn of(header: &[&str], rows: &[Vec<String>]) -> Self {
        let mut widths: Vec<_> = header.iter().map(|cell| cell.chars().count()).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(shown_cell(cell).chars().count());
            }
        }
        Self { widths }
    }

    /// Prints the cells of one row. A cell that is too long is cut; the JSON output has all of it.
    pub fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let padded: Vec<_> = cells
            .map(shown_cell)
            .zip(&self.widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    }
}

/// A cell as it is shown: without control characters, cut if it has more characters than fit.
fn shown_cell(cell: &str) -> String {
    let text = printable(cell);
    match text.char_indices().nth(MAX_CELL_CHARS) {
        None => text,
        Some(_) => text.chars().take(MAX_CELL_CHARS - 1).chain(['…']).collect(),
    }
}

/// Rows with their columns aligned, a header first.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = Columns::of(header, rows);
    let mut lines = vec![columns.line(header.iter().copied())];
    lines.extend(rows.iter().map(|row| columns.line(row.iter().map(String::as_str))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_rounded_unless_exact_bytes_are_asked_for() {
        let out = Out::new(false);
        let rounded = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")];
        for (bytes, shown) in rounded {
            assert_eq!(out.size(bytes), shown);
        }
        assert_eq!(out.with_sizes(Sizes::Exact).size(1536), "1536 B");
    }

    #[test]
    fn a_printed_string_cannot_move_the_cursor_or_begin_a_line() {
        assert_eq!(printable("grün, 'x' and \\"), "grün, 'x' and \\");
        assert_eq!(printable("a\u{1b}[2J\r\nb\u{9b}1m\t"), r"a\u{1b}[2J\r\nb\u{9b}1m\t");
        let rows = [vec!["a\nb".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["one", "two"], &rows), "one   two\na\\nb  c");
        assert_eq!(escaped("a:1:\n\tx\u{1b}c", &['\n', '\t']), "a:1:\n\tx\\u{1b}c");
    }

    #[test]
    fn a_too_long_cell_is_cut() {
        for chars in [MAX_CELL_CHARS, MAX_CELL_CHARS + 1, 1 << 20] {
            let rows = [["ä".repeat(chars), "b".to_owned()].to_vec()];
            let shown = table(&["one", "two"], &rows);
            let last = shown.lines().last().unwrap();
            assert_eq!(last.chars().count(), MAX_CELL_CHARS + "  b".len(), "{chars}");
            assert_eq!(last.ends_with("ä…  b"), chars > MAX_CELL_CHARS, "{chars}");
        }
    }

    #[test]
    fn printed_json_escapes_control_characters_without_changing_its_meaning() {
        let value = serde_json::json!({ "m": "a\u{7f}b\u{85}\n\u{1b}ä" });
        let line = json_line(&value);
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }

    #[test]
    fn a_time_past_the_year_9999_is_printed_as_a_number() {
        assert_eq!(utc(1_000_000), "1970-01-01T00:00:01.000000Z");
        let last = 253_402_300_799_999_999;
        assert_eq!(utc(last), "9999-12-31T23:59:59.999999Z");
        assert_eq!(utc(last + 1), "253402300800000000");
        assert_eq!(utc(u64::MAX), u64::MAX.to_string());
    }
}
