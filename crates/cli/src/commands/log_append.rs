//! `nacre log append`: appends the lines of a file or a pipe in order, one record a line.
//!
//! The command appends every line that it can. If a line cannot be read, it still appends the lines
//! before that line. If the reader of the printed positions has gone (a closed pipe), it still
//! appends all lines. If the command stops early, it says on standard error which lines are in the
//! log.
//!
//! The command sends the records of a batch together, and waits until every record of the batch is
//! appended or has failed. Then it sends the next batch. So when the command stops, the log holds
//! the first lines of the input, except single lines of the last batch that failed. On SIGINT or
//! SIGTERM the command also waits for the batch in flight.
//!
//! If a target or the sequencer fails, a record may be appended at a later position, behind records
//! that follow it in the input. The command cannot undo this. It reports the record and stops,
//! unless the user has set `--any-order`.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use nacre::Log;
use nacre_object::{Error, Result};
use serde_json::json;
use tokio::time::sleep;

use super::append_progress::{GoOn, Progress};
use crate::lines::{LineBatch, Lines};
use crate::out::{Out, note, note_json};
use crate::signals::{Interrupts, interrupted};

/// The arguments of `nacre log append`.
#[derive(Debug, clap::Args)]
pub struct AppendArguments {
    pub log: String,
    /// The file with the lines; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print the position of each record
    #[arg(long)]
    positions: bool,
    /// Continue even if records get out of the order of the lines, as can happen when a node fails
    #[arg(long)]
    any_order: bool,
}

/// Records appended by one call: enough to fill the pipe to every target.
const APPEND_BATCH: usize = 512;
/// How long an interrupted command waits for the batch in flight. If a node fails, it restarts and
/// serves again within this time.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);

/// Appends every line.
///
/// # Errors
/// - The error of the first record that could not be appended.
/// - `Conflict` if a record got a position behind a record that follows it in the input.
/// - `Invalid` or `NotFound` if the input cannot be read to its end.
/// - `Unavailable` if a signal ended the command.
pub async fn append(log: &Log, arguments: AppendArguments, out: Out) -> Result<()> {
    let AppendArguments { log: name, file, positions, any_order } = arguments;
    let run = Run {
        log,
        interrupts: Interrupts::hear()?,
        progress: Progress::default(),
        shown: (positions || out.is_json()).then_some(out),
        any_order,
    };
    let (progress, end) = run.until_end(Lines::of_file(file.clone())).await;
    // Return the sequencer's capability before this process ends. Otherwise the next client would
    // wait until the lease of this client is over.
    log.release().await;
    let is_interrupted = matches!(end, Err(Ending::Interrupted));
    if out.is_json() {
        note_json(&progress.to_json(is_interrupted));
    } else {
        let go_on = GoOn { file: &file, log: &name };
        let told = progress.told(is_interrupted.then_some(&go_on));
        told.iter().for_each(|line| note(line));
    }
    end.map_err(|ending| match ending {
        Ending::Failed(error) => error,
        Ending::Interrupted => interrupted("interrupted"),
    })
}

/// Why a run stopped before the end of its input.
enum Ending {
    Failed(Error),
    Interrupted,
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The appending of one input.
struct Run<'a> {
    log: &'a Log,
    interrupts: Interrupts,
    progress: Progress,
    /// Where positions are printed, while somebody reads them.
    shown: Option<Out>,
    any_order: bool,
}

impl Run<'_> {
    /// Appends until the input ends or something else ends the run.
    async fn until_end(mut self, mut lines: Lines) -> (Progress, Result<(), Ending>) {
        loop {
            // Take all lines that have arrived. A line from a slow pipe is sent at once, without
            // waiting for more lines.
            let batch = tokio::select! {
                biased;
                () = self.interrupts.first() => return (self.progress, Err(Ending::Interrupted)),
                batch = lines.next_batch(APPEND_BATCH) => batch,
            };
            let Some(batch) = batch else { return (self.progress, Ok(())) };
            if let Err(ending) = self.append(batch).await {
                return (self.progress, Err(ending));
            }
        }
    }

    /// Appends the lines of a batch.
    async fn append(&mut self, batch: LineBatch) -> Result<(), Ending> {
        let records: Vec<Bytes> = batch.lines.iter().map(|line| line.text.clone()).collect();
        let outcomes = tokio::select! {
            outcomes = self.log.append_batch(&records) => outcomes,
            () = patience_is_over(&self.interrupts) => {
                self.progress.abandon(records.len());
                return Err(Ending::Interrupted);
            }
        };
        let mut printed = Ok(());
        for outcome in outcomes {
            if let Some(position) = self.progress.take(outcome)
                && printed.is_ok()
            {
                printed = self.show(position);
            }
        }
        printed?;
        self.progress.outcome(self.any_order)?;
        batch.error.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Prints a position. If the reader of the positions is gone, the command goes on without
    /// printing.
    fn show(&mut self, position: u64) -> Result<()> {
        let Some(out) = self.shown else { return Ok(()) };
        if !out.show_while_read(&json!({ "position": position }), || position.to_string())? {
            self.shown = None;
        }
        Ok(())
    }
}

/// Completes when a command that was interrupted must not wait any longer.
async fn patience_is_over(interrupts: &Interrupts) {
    interrupts.first().await;
    tokio::select! {
        () = sleep(INTERRUPT_PATIENCE) => {}
        () = interrupts.second() => {}
    }
}
