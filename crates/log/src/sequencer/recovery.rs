//! Carries out the commands of a log's recovery: seals objects and asks for their maxima.

use std::time::Duration;

use nacre_object::{Error, ObjectId, Result};

use crate::LogName;
use crate::core::{RecoveryCommand, RecoveryCore, RecoveryEvent};
use crate::env::LogEnv;
use crate::storage::{Addressed, CallFailure, CallResult, StorageClient};
use crate::view::{EntryLocation, View};

/// How long recovery waits before it asks a silent object again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// # Errors
/// Errors that a repetition cannot mend: damage, or a missing right.
pub(super) async fn carry_out(env: &LogEnv, command: RecoveryCommand) -> Result<RecoveryEvent> {
    let storage = StorageClient::new(env);
    match command {
        RecoveryCommand::Seal { view, place } => {
            let object = object_of(&view, place)?;
            let to = Addressed::by(&view, &object);
            // Do not seal an object that was lost: the seal would create it again, and the
            // positions that it held would read as unwritten.
            if !is_first_claim(&view) && was_lost(storage.max_position(to).await) {
                return Ok(RecoveryEvent::Lost(place));
            }
            found(place, storage.seal(to).await, RecoveryEvent::Sealed).await
        }
        RecoveryCommand::AskMaximum { view, place } => {
            let object = object_of(&view, place)?;
            let maximum = storage.max_position(Addressed::by(&view, &object)).await;
            found(place, maximum, RecoveryEvent::Maximum).await
        }
    }
}

/// Whether this is the first claim of the log. Its objects may then be missing without being lost:
/// in a log from an earlier release, the seals of the first claim create them.
fn is_first_claim(view: &View) -> bool {
    view.epoch() == view.born() + 1
}

/// Whether an object answered that it does not exist. Objects exist before a view names them, so it
/// was lost.
fn was_lost(answer: CallResult<Option<u64>>) -> bool {
    matches!(answer, Err(CallFailure::Unsealed))
}

/// The error of a recovery that took too long.
pub(super) fn gave_up(env: &LogEnv, log: &LogName, recovery: Option<&RecoveryCore>) -> Error {
    let waited_for = recovery.and_then(RecoveryCore::waits_for);
    match waited_for.and_then(|(view, place)| view.object(place)) {
        Some(object) => {
            let target = env.placement.locate(&object);
            Error::unavailable(format!("the log's tail cannot be found without {object}"))
                .on(log)
                .hint(format!("bring target {target} back"))
        }
        None => Error::unavailable("the log's tail was not found in time")
            .on(log)
            .hint("check with `nacre status` that all nodes and targets run, and try again"),
    }
}

pub(super) fn object_of(view: &View, place: EntryLocation) -> Result<ObjectId> {
    view.object(place).ok_or_else(|| {
        Error::corrupt("the log's view does not name the object of one of its positions")
            .on(view.log())
            .hint("`nacre scrub` says what is damaged")
    })
}

async fn found(
    place: EntryLocation,
    answer: CallResult<Option<u64>>,
    event: impl FnOnce(EntryLocation, Option<u64>) -> RecoveryEvent,
) -> Result<RecoveryEvent> {
    match answer {
        Ok(maximum) => Ok(event(place, maximum)),
        Err(CallFailure::Stale) => Ok(RecoveryEvent::AlreadySealed(place)),
        // The seal that was in doubt did not happen after all.
        Err(CallFailure::Unsealed) => Ok(RecoveryEvent::NoAnswer(place)),
        Err(CallFailure::NoAnswer(_)) => {
            tokio::time::sleep(ASK_AGAIN).await;
            Ok(RecoveryEvent::NoAnswer(place))
        }
        Err(CallFailure::Failed(error)) => Err(error),
    }
}
