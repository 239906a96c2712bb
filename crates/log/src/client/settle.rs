//! Finishes an append whose first write failed: the object refused it, or did not answer. Such
//! appends are rare, so each is handled alone, not in a batch.

use std::sync::Arc;

use nacre_host::Backoff;
use nacre_object::{Error, ErrorKind, ObjectId, Result};
use nacre_telemetry::traced;

use super::append::Append;
use super::appender::Appender;
use super::suspects::Suspicion;
use crate::core::{AppendCommand, AppendEvent, ReadBack};
use crate::record;
use crate::storage::status::EROFS;
use crate::storage::{Addressed, CallFailure, EntryState};
use crate::view::View;

impl Appender {
    /// Continues an append from `command` on, until the append ends or gets another position.
    pub(super) async fn settle(
        self: Arc<Self>,
        mut append: Append,
        mut command: AppendCommand,
        object: ObjectId,
        mut suspicion: Option<Suspicion>,
    ) {
        let mut backoff = Backoff::new();
        loop {
            let event = match command {
                AppendCommand::TakeToken => return self.enqueue([append]),
                AppendCommand::Done { position } => return append.end(Ok(position)),
                AppendCommand::Lost { position } => {
                    let text = format!(
                        "position {position} was trimmed before it was known whether the record \
                         was there"
                    );
                    return append.end(Err(Error::unavailable(text).during("append")));
                }
                _ if append.is_late() => return append.fail_late(),
                command => self.carry_out(command, &append).await,
            };
            let event = match event {
                Ok(event) => event,
                // The log was removed, so it no longer matters whether the record was in it.
                Err(gone) if is_gone(&gone) && matches!(command, AppendCommand::Refresh { .. }) => {
                    return append.end(Err(gone.during("append")));
                }
                Err(error) => return append.fail(&error),
            };
            if event == AppendEvent::NoAnswer {
                if !matches!(command, AppendCommand::Refresh { .. }) {
                    suspicion.get_or_insert_with(|| self.suspect(&object));
                }
                backoff.wait().await;
            } else {
                suspicion = None;
            }
            command = append.core.handle(event);
        }
    }

    async fn carry_out(&self, command: AppendCommand, append: &Append) -> Result<AppendEvent> {
        match command {
            AppendCommand::Write { position, epoch } => {
                self.write_one(position, epoch, append).await
            }
            AppendCommand::Read { position, epoch } => self.read_one(position, epoch, append).await,
            AppendCommand::Refresh { epoch } => match self.views.later_than(epoch).await {
                Ok(view) if view.epoch() > epoch => Ok(view_event(&view)),
                Err(gone) if is_gone(&gone) => Err(gone),
                // Not to be found yet, or nobody answers.
                Ok(_) | Err(_) => Ok(AppendEvent::NoAnswer),
            },
            AppendCommand::TakeToken | AppendCommand::Done { .. } | AppendCommand::Lost { .. } => {
                unreachable!("these end the settling")
            }
        }
    }

    async fn write_one(&self, position: u64, epoch: u64, append: &Append) -> Result<AppendEvent> {
        let view = self.views.get();
        let Some(object) = view.place(position).and_then(|place| view.object(place)) else {
            return Ok(AppendEvent::Taken);
        };
        let to = Addressed { object: &object, class: view.class(), epoch };
        let entry = [(position, &append.entry)];
        outcome(traced(append.span.as_ref(), self.storage.write(to, &entry)).await)
    }

    async fn read_one(&self, position: u64, epoch: u64, append: &Append) -> Result<AppendEvent> {
        let view = self.views.get();
        if position < view.kept_from() {
            return Ok(AppendEvent::Holds(ReadBack::Trimmed));
        }
        let Some(object) = view.place(position).and_then(|place| view.object(place)) else {
            // A new layout has cut the range that contained the position. So the entry that the old
            // object may have there is not part of the log.
            return Ok(AppendEvent::Holds(ReadBack::Other));
        };
        let to = Addressed { object: &object, class: view.class(), epoch };
        let read = async { self.storage.read(to, u32::MAX, &[position]).await };
        match traced(append.span.as_ref(), read).await {
            Ok(states) => Ok(AppendEvent::Holds(match states.into_iter().next() {
                Some(EntryState::Data(entry)) if record::is(&entry, append.id) => ReadBack::Mine,
                Some(EntryState::Data(_) | EntryState::Filled) => ReadBack::Other,
                Some(EntryState::Trimmed) => ReadBack::Trimmed,
                Some(EntryState::Unwritten) => ReadBack::Unwritten,
                Some(EntryState::Damaged) | None => {
                    return Err(Error::corrupt(format!(
                        "the log's entry at position {position} is damaged"
                    ))
                    .hint("`nacre scrub` says what is damaged; trim the position to skip it"));
                }
            })),
            Err(CallFailure::Stale | CallFailure::Unsealed) => Ok(AppendEvent::Stale),
            Err(CallFailure::NoAnswer(_)) => Ok(AppendEvent::NoAnswer),
            Err(CallFailure::Failed(error)) => Err(error),
        }
    }
}

/// Of a view that is looked for: there is no such log any more.
fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

fn view_event(view: &View) -> AppendEvent {
    let sequencer = view.sequencer().map_or(0, |sequencer| sequencer.epoch);
    AppendEvent::View { epoch: view.epoch(), sequencer }
}

/// The event of a write of one entry.
fn outcome(called: Result<Vec<i32>, CallFailure>) -> Result<AppendEvent> {
    match called {
        Ok(statuses) => match statuses.first() {
            Some(0) => Ok(AppendEvent::Accepted),
            Some(&EROFS) => Ok(AppendEvent::Taken),
            other => {
                let status = other.copied().unwrap_or(-1).min(-1);
                Err(Error::from_status(status, "the entry could not be written"))
            }
        },
        Err(CallFailure::Stale) => Ok(AppendEvent::Stale),
        Err(CallFailure::Unsealed) => Ok(AppendEvent::Taken),
        Err(CallFailure::NoAnswer(_)) => Ok(AppendEvent::NoAnswer),
        Err(CallFailure::Failed(error)) => Err(error),
    }
}
