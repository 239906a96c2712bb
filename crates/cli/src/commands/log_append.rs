//! `nacre log append`: the lines of a file or a pipe, each a record, in order.
//!
//! What can be appended is: the lines before one that cannot be read, and all of them though nobody reads
//! the positions any more. Of what cannot, standard error says how much is in the log.
//!
//! Records of a batch travel together. One whose place is lost on the way, as a target or the sequencer
//! fails, gets a later one, and may come to lie behind those after it. That cannot be undone: then it is
//! told and nothing more is appended, unless order is said not to matter.

use std::path::PathBuf;

use bytes::Bytes;
use nacre::Log;
use nacre_object::{Error, ErrorKind, Result};
use serde_json::json;
use tokio::sync::mpsc;

use crate::lines::{self, Line};
use crate::out::{Out, note};

/// What `nacre log append` can be told.
#[derive(Debug, clap::Args)]
pub struct AppendArguments {
    pub log: String,
    /// The file; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print the position of each record
    #[arg(long)]
    positions: bool,
    /// Go on though a record came to lie behind a later one, as a node failed meanwhile
    #[arg(long)]
    any_order: bool,
}

/// Records appended by one call: enough to fill the pipe to every target.
const APPEND_BATCH: usize = 512;

/// Appends every line.
///
/// # Errors
/// Of the first record that was not appended; `Conflict` of the first that lies behind a later one; `Invalid`
/// or `NotFound` if the file cannot be read on.
pub async fn append(log: &Log, arguments: AppendArguments, out: Out) -> Result<()> {
    let AppendArguments { file, positions, any_order, .. } = arguments;
    let mut lines: mpsc::Receiver<Line> = lines::read(file);
    let mut batch = Vec::with_capacity(APPEND_BATCH);
    let mut progress = Progress::default();
    let mut is_shown = positions || out.is_json();
    let mut end = Ok(());
    // What has arrived goes together; a slow pipe's lines go one by one, without waiting.
    while end.is_ok() && lines.recv_many(&mut batch, APPEND_BATCH).await > 0 {
        let records = readable(&mut batch, &mut end);
        for appended in log.append_batch(&records).await {
            let Some(position) = progress.take(appended) else { continue };
            if is_shown {
                let shown = json!({ "position": position });
                let read = out.show_while_read(&shown, || position.to_string());
                is_shown = read.unwrap_or_else(|error| {
                    end = Err(error);
                    false
                });
            }
        }
        progress.outcome(any_order).unwrap_or_else(|error| end = Err(error));
    }
    progress.told().iter().for_each(|line| note(line));
    end
}

/// The lines of a batch; why there are no more, if that is its end, goes to `end`.
fn readable(batch: &mut Vec<Line>, end: &mut Result<()>) -> Vec<Bytes> {
    let mut records = Vec::with_capacity(batch.len());
    for line in batch.drain(..) {
        match line {
            Ok(record) => records.push(record),
            Err(error) => *end = Err(error),
        }
    }
    records
}

/// What became of the records so far.
#[derive(Debug, Default)]
struct Progress {
    tried: u64,
    appended: u64,
    /// The record at the highest position so far, and that position.
    last: Option<Place>,
    /// The first that was not appended: which it was, from 1, and why.
    failed: Option<(u64, Error)>,
    /// The first two of which the former lies behind the latter.
    swapped: Option<[Place; 2]>,
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    /// Which record it is, from 1.
    number: u64,
    position: u64,
}

impl Progress {
    /// Takes what became of the next; its position if it was appended.
    fn take(&mut self, appended: Result<u64>) -> Option<u64> {
        self.tried += 1;
        match appended {
            Ok(position) => {
                self.appended += 1;
                self.place(Place { number: self.tried, position });
                Some(position)
            }
            Err(error) => {
                self.failed.get_or_insert((self.tried, error));
                None
            }
        }
    }

    fn place(&mut self, next: Place) {
        match self.last {
            Some(last) if last.position > next.position => {
                self.swapped.get_or_insert([last, next]);
            }
            _ => self.last = Some(next),
        }
    }

    /// Why no more is to be appended, if that is so.
    fn outcome(&self, any_order: bool) -> Result<()> {
        if let Some((_, error)) = &self.failed {
            return Err(error.clone());
        }
        match self.swapped {
            Some(swapped) if !any_order => Err(disorder(swapped)),
            _ => Ok(()),
        }
    }

    /// For the person at the terminal.
    fn told(&self) -> Vec<String> {
        let Self { tried, appended, last, failed, .. } = self;
        let last = last.map(|Place { position, .. }| {
            let records = if *appended == 1 { "record" } else { "records" };
            format!("{appended} {records} appended, the last at position {position}")
        });
        // Those before the first that failed did not.
        let failed = failed.as_ref().map(|(number, _)| {
            let (after, in_log) = (tried - number, appended + 1 - number);
            let rest = "no later one was tried";
            match after {
                0 => format!("record {number} failed; {rest}"),
                _ => format!(
                    "record {number} failed; of the {after} after it {in_log} are in the log; {rest}"
                ),
            }
        });
        last.into_iter().chain(failed).collect()
    }
}

fn disorder([former, latter]: [Place; 2]) -> Error {
    let text = format!(
        "record {} is at position {}, behind record {} at {}: a target or the sequencer failed meanwhile",
        former.number, former.position, latter.number, latter.position
    );
    let hint = "all that is said to be appended is in the log; append the rest after it, or use \
                --any-order if order does not matter";
    Error::new(ErrorKind::Conflict, text).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(outcomes: &[Result<u64>]) -> Vec<String> {
        let mut progress = Progress::default();
        for outcome in outcomes {
            progress.take(outcome.clone());
        }
        progress.told()
    }

    #[test]
    fn it_is_told_how_much_is_in_the_log_around_the_first_record_that_failed() {
        let failed = || Err(Error::unavailable("nobody answers"));
        assert!(told(&[]).is_empty());
        assert_eq!(told(&[Ok(6), Ok(8)]), ["2 records appended, the last at position 8"]);
        assert_eq!(
            told(&[Ok(6), Ok(7), failed(), Ok(9), failed(), Ok(11)]),
            [
                "4 records appended, the last at position 11",
                "record 3 failed; of the 3 after it 2 are in the log; no later one was tried",
            ]
        );
        assert_eq!(told(&[Ok(3)]), ["1 record appended, the last at position 3"]);
        assert_eq!(told(&[failed()]), ["record 1 failed; no later one was tried"]);
    }

    #[test]
    fn a_record_behind_a_later_one_is_told_and_ends_it_unless_order_does_not_matter() {
        let mut progress = Progress::default();
        for position in [4, 7, 9, 8, 12, 10] {
            progress.take(Ok(position));
        }
        let error = progress.outcome(false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let text = "record 3 is at position 9, behind record 4 at 8: ";
        assert!(error.message().starts_with(text), "{error}");
        assert!(progress.outcome(true).is_ok());
        assert_eq!(progress.told(), ["6 records appended, the last at position 12"]);
    }

    #[test]
    fn the_first_failure_is_the_one_that_is_kept() {
        let mut progress = Progress::default();
        for text in ["first", "second"] {
            assert_eq!(progress.take(Err(Error::unavailable(text).hint("try again"))), None);
        }
        let (number, error) = progress.failed.unwrap();
        assert_eq!((number, error.message(), error.hint_text()), (1, "first", Some("try again")));
    }

    #[test]
    fn the_lines_before_one_that_cannot_be_read_are_records() {
        let mut batch = vec![Ok("a".into()), Ok("b".into()), Err(Error::invalid("too long"))];
        let mut end = Ok(());
        assert_eq!(readable(&mut batch, &mut end), ["a", "b"]);
        assert_eq!(end.unwrap_err().message(), "too long");
    }
}
