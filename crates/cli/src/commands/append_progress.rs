//! Tracks the outcome of each line that `nacre log append` has read, and tells the user how to
//! append the rest.
//!
//! **Invariant:** however the command ends, it reports each line as one of these: in the log,
//! failed, unknown (the append has no answer yet), or not tried. The lines that were not tried are
//! always the last ones.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use nacre_object::{Error, ErrorKind, Result};
use serde_json::{Value, json};

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RecordLocation {
    /// The line of the input, from 1.
    line: u64,
    position: u64,
}

/// Line numbers in rising order, as ranges.
#[derive(Debug, Default, Clone, PartialEq)]
struct LineRanges(Vec<RangeInclusive<u64>>);

impl LineRanges {
    /// Adds a line behind all others.
    fn push(&mut self, line: u64) {
        match self.0.last_mut() {
            Some(last) if *last.end() + 1 == line => *last = *last.start()..=line,
            _ => self.0.push(line..=line),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|range| range.end() - range.start() + 1).sum()
    }

    fn to_json(&self) -> Value {
        self.0.iter().map(|range| json!([range.start(), range.end()])).collect()
    }
}

impl fmt::Display for LineRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

/// The outcomes of the lines that have been tried so far.
#[derive(Debug, Default)]
pub struct Progress {
    tried: u64,
    in_log: LineRanges,
    failed: LineRanges,
    unknown: LineRanges,
    /// The last line that is in the log.
    latest: Option<RecordLocation>,
    /// The line at the highest position.
    highest: Option<RecordLocation>,
    /// The error of the first failed line.
    failure: Option<Error>,
    /// The first two lines that are in the wrong order: the earlier line has the higher position.
    swapped: Option<[RecordLocation; 2]>,
}

impl Progress {
    /// Records the outcome of the next line. Returns its position if it is in the log.
    pub fn take(&mut self, appended: Result<u64>) -> Option<u64> {
        self.tried += 1;
        let line = self.tried;
        match appended {
            Ok(position) => {
                self.in_log.push(line);
                self.place(RecordLocation { line, position });
                Some(position)
            }
            Err(error) => {
                self.failed.push(line);
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    /// Records that the next lines were sent, and that the command no longer waits for their
    /// outcome.
    pub fn abandon(&mut self, count: usize) {
        for _ in 0..count {
            self.tried += 1;
            self.unknown.push(self.tried);
        }
    }

    fn place(&mut self, next: RecordLocation) {
        self.latest = Some(next);
        match self.highest {
            Some(highest) if highest.position > next.position => {
                self.swapped.get_or_insert([highest, next]);
            }
            _ => self.highest = Some(next),
        }
    }

    /// Why no more lines are to be appended, if that is so.
    pub fn outcome(&self, any_order: bool) -> Result<()> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        match self.swapped {
            Some(swapped) if !any_order => Err(disorder(swapped)),
            _ => Ok(()),
        }
    }

    /// Whether a line may be missing in the log while a later line is in it.
    fn has_holes(&self) -> bool {
        !self.failed.is_empty() || !self.unknown.is_empty()
    }

    /// The messages for a person at the terminal. `go_on` is set if the command ended before its
    /// input did; it gives the command that appends the remaining lines.
    pub fn told(&self, go_on: Option<&GoOn<'_>>) -> Vec<String> {
        let mut told = Vec::new();
        if let (Some(latest), Some(highest)) = (self.latest, self.highest) {
            let count = self.in_log.count();
            let records = if count == 1 { "record" } else { "records" };
            let mut text =
                format!("{count} {records} appended, the last at position {}", highest.position);
            if let (Some(go_on), false) = (go_on, self.has_holes()) {
                let go_on = go_on.after(latest.line);
                text = format!(
                    "{count} {records} appended; the last is line {} at position {}; go on with `{go_on}`",
                    latest.line, latest.position
                );
            }
            told.push(text);
        } else if go_on.is_some() && !self.has_holes() {
            told.push("no record was appended".to_owned());
        }
        told.extend(self.has_holes().then(|| self.told_of_holes()));
        told
    }

    fn told_of_holes(&self) -> String {
        let named = [
            ("in the log", &self.in_log),
            ("failed", &self.failed),
            ("sent, outcome not known", &self.unknown),
        ];
        let named = named.into_iter().filter(|(_, lines)| !lines.is_empty());
        let mut parts: Vec<_> = named.map(|(what, lines)| format!("{what}: {lines}")).collect();
        parts.push(format!("not tried: any after {}", self.tried));
        format!("lines {}", parts.join("; "))
    }

    /// The same for programs.
    pub fn to_json(&self, is_interrupted: bool) -> Value {
        json!({
            "appended": self.in_log.count(),
            "last_line": self.latest.map(|place| place.line),
            "last_position": self.latest.map(|place| place.position),
            "in_log": self.in_log.to_json(),
            "failed": self.failed.to_json(),
            "unknown": self.unknown.to_json(),
            "next_line": self.tried + 1,
            "interrupted": is_interrupted,
        })
    }
}

/// How a person appends the lines that were not.
#[derive(Debug)]
pub struct GoOn<'a> {
    pub file: &'a Path,
    pub log: &'a str,
}

impl GoOn<'_> {
    fn after(&self, line: u64) -> String {
        let (tail, log) = (format!("tail -n +{}", line + 1), shell_word(self.log));
        match self.file == Path::new("-") {
            true => format!("… | {tail} | nacre log append {log}"),
            false => {
                let file = shell_word(&self.file.to_string_lossy());
                format!("{tail} {file} | nacre log append {log}")
            }
        }
    }
}

/// A text as one word of a shell's command line.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-+=:,@".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn disorder([former, latter]: [RecordLocation; 2]) -> Error {
    let text = format!(
        "line {} is at position {}, behind line {} at {}: a target or the sequencer failed meanwhile",
        former.line, former.position, latter.line, latter.position
    );
    let hint = "all that is said to be appended is in the log; append the rest after it, or use \
                --any-order if order does not matter";
    Error::new(ErrorKind::Conflict, text).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress_of(outcomes: &[Result<u64>]) -> Progress {
        let mut progress = Progress::default();
        for outcome in outcomes {
            progress.take(outcome.clone());
        }
        progress
    }

    fn failed() -> Result<u64> {
        Err(Error::unavailable("nobody answers"))
    }

    fn from_file() -> GoOn<'static> {
        GoOn { file: Path::new("my file"), log: "l" }
    }

    #[test]
    fn an_append_reports_how_many_records_are_in_the_log() {
        assert!(progress_of(&[]).told(None).is_empty());
        let told = progress_of(&[Ok(6), Ok(8)]).told(None);
        assert_eq!(told, ["2 records appended, the last at position 8"]);
        let told = progress_of(&[Ok(3)]).told(None);
        assert_eq!(told, ["1 record appended, the last at position 3"]);
    }

    #[test]
    fn an_interrupted_append_says_how_to_continue() {
        let progress = progress_of(&[Ok(6), Ok(8)]);
        let told = progress.told(Some(&from_file()));
        let go_on = "go on with `tail -n +3 'my file' | nacre log append l`";
        let expected = format!("2 records appended; the last is line 2 at position 8; {go_on}");
        assert_eq!(told, [expected]);
        let piped = GoOn { file: Path::new("-"), log: "l" };
        let told = progress.told(Some(&piped)).concat();
        assert!(told.ends_with("go on with `… | tail -n +3 | nacre log append l`"), "{told}");
        assert_eq!(progress_of(&[]).told(Some(&piped)), ["no record was appended"]);
    }

    #[test]
    fn an_append_reports_every_line_around_a_failed_one() {
        let mut progress = progress_of(&[Ok(6), Ok(7), failed(), Ok(9), failed(), Ok(11)]);
        let in_log = "4 records appended, the last at position 11";
        let lines = "lines in the log: 1-2, 4, 6; failed: 3, 5; not tried: any after 6";
        assert_eq!(progress.told(None), [in_log, lines]);
        assert_eq!(progress.told(Some(&from_file())), [in_log, lines], "there is no way to go on");
        progress.abandon(3);
        let lines = "lines in the log: 1-2, 4, 6; failed: 3, 5; sent, outcome not known: 7-9; \
                     not tried: any after 9";
        assert_eq!(progress.told(None), [in_log, lines]);
        let told = progress_of(&[failed()]).told(None);
        assert_eq!(told, ["lines failed: 1; not tried: any after 1"]);
    }

    #[test]
    fn the_json_report_of_an_append_names_every_line() {
        let mut progress = progress_of(&[Ok(6), Ok(7), failed(), Ok(9)]);
        progress.abandon(2);
        let expected = json!({ "appended": 3, "last_line": 4, "last_position": 9,
            "in_log": [[1, 2], [4, 4]], "failed": [[3, 3]], "unknown": [[5, 6]],
            "next_line": 7, "interrupted": true });
        assert_eq!(progress.to_json(true), expected);
    }

    #[test]
    fn an_append_stops_when_a_record_lies_behind_a_later_one_unless_any_order_is_allowed() {
        let progress = progress_of(&[4, 7, 9, 8, 12, 10].map(Ok));
        let error = progress.outcome(false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let text = "line 3 is at position 9, behind line 4 at 8: ";
        assert!(error.message().starts_with(text), "{error}");
        assert!(progress.outcome(true).is_ok());
        assert_eq!(progress.told(None), ["6 records appended, the last at position 12"]);
    }

    #[test]
    fn an_append_reports_its_first_failure() {
        let failures = ["first", "second"].map(|text| Err(Error::unavailable(text).hint("retry")));
        let error = progress_of(&failures).outcome(true).unwrap_err();
        assert_eq!((error.message(), error.hint_text()), ("first", Some("retry")));
    }
}
