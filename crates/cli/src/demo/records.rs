//! The records the demo appends: the lines of a real file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::lines::{self, MAX_LINE_BYTES};

/// The most records of a run. The demo keeps all of them in memory; more would not improve the
/// measured rates.
const MAX_RECORDS: usize = 200_000;
/// Debian's package database: what is installed …
const PACKAGE_STATUS: &str = "/var/lib/dpkg/status";
/// … and the files of each package.
const PACKAGE_FILES: &str = "/var/lib/dpkg/info";

/// Lines of a file, in order.
#[derive(Debug)]
pub struct Records {
    /// Where they came from, for people.
    pub origin: String,
    /// The lines, without their ends.
    pub lines: Vec<Bytes>,
    /// Whether the input has more lines than were taken.
    pub cut: bool,
}

impl Records {
    /// Loads at most `limit` lines of `input`; `-` is standard input. Without an input, it loads
    /// Debian's package database.
    ///
    /// # Errors
    /// `NotFound` if the input cannot be read or is empty; `Invalid` if a line is too long.
    pub fn load(input: Option<&Path>, limit: Option<usize>) -> Result<Self> {
        let limit = limit.unwrap_or(MAX_RECORDS).min(MAX_RECORDS);
        let (origin, paths) = match input {
            None => ("Debian's package database".to_owned(), package_database()?),
            Some(path) if path == Path::new("-") => ("standard input".to_owned(), vec![]),
            Some(path) => (path.display().to_string(), vec![path.to_owned()]),
        };
        let mut records = Self { origin, lines: Vec::new(), cut: false };
        if paths.is_empty() {
            records.take_lines(std::io::stdin().lock(), "standard input", limit)?;
        }
        for path in paths {
            let name = path.display().to_string();
            let unreadable = |error| Error::not_found(format!("cannot read {name}: {error}"));
            let file = fs::File::open(&path).map_err(unreadable)?;
            records.take_lines(BufReader::new(file), &name, limit)?;
        }
        if records.lines.is_empty() {
            return Err(Error::not_found(format!("{} has no records", records.origin))
                .hint("name a file with --input FILE; each line is a record"));
        }
        Ok(records)
    }

    fn take_lines(&mut self, mut from: impl BufRead, name: &str, limit: usize) -> Result<()> {
        let unreadable = |error| Error::not_found(format!("cannot read {name}: {error}"));
        while let Some(line) = lines::next(&mut from).map_err(unreadable)? {
            if self.lines.len() == limit {
                self.cut = true;
                break;
            }
            if line.len() > MAX_LINE_BYTES {
                let number = self.lines.len() + 1;
                return Err(Error::invalid(format!(
                    "line {number} of {name} is longer than {MAX_LINE_BYTES} bytes, the limit of a record"
                ))
                .hint("split the line, or name another file with --input"));
            }
            self.lines.push(line);
        }
        Ok(())
    }
}

fn package_database() -> Result<Vec<PathBuf>> {
    let absent = |error| {
        Error::not_found(format!("no Debian package database at {PACKAGE_FILES}: {error}"))
            .hint("name a file with --input FILE; each line is a record")
    };
    let mut lists: Vec<PathBuf> = fs::read_dir(PACKAGE_FILES)
        .map_err(absent)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "list" || e == "md5sums"))
        .collect();
    lists.sort();
    lists.insert(0, PACKAGE_STATUS.into());
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8], limit: usize) -> Result<Records> {
        let mut records = Records { origin: "a test".into(), lines: Vec::new(), cut: false };
        records.take_lines(text, "a test", limit).map(|()| records)
    }

    #[test]
    fn records_report_that_the_limit_cut_the_input() {
        let records = of(b"a\nb\nc\n", 2).unwrap();
        assert_eq!((records.lines.len(), records.cut), (2, true));
    }

    #[test]
    fn an_endless_line_is_refused() {
        assert!(of(&vec![b'x'; MAX_LINE_BYTES + 5], 2).is_err());
    }
}
