//! Carries out what [`RecoveryCore`] decides.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nacre_clock::Random;
use nacre_object::{Error, ErrorKind, NodeName, ObjectId, Result};
use tokio::time::{Instant, timeout_at};

use crate::LogName;
use crate::core::{RecoveryCommand, RecoveryCore, RecoveryEvent, SequencerCore};
use crate::env::LogEnv;
use crate::storage::{Addressed, CallFailure, CallResult, StorageClient};
use crate::view::{Place, View};
use crate::views::stored_view;

/// A recovery that some object keeps waiting ends after this, to say which.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(20);
/// An object that did not answer is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// What came of a recovery.
pub(super) enum Recovered {
    /// This node is the sequencer.
    Serving(SequencerCore),
    /// Somebody else was first.
    Adopted(View),
}

/// Makes `node` the sequencer of a log in place of the view of epoch `replaces`.
///
/// # Errors
/// `NotFound` if there is no such log; `Unavailable` if an object that must be sealed does not
/// answer.
pub(super) async fn recover(
    node: &NodeName,
    env: &LogEnv,
    log: &LogName,
    replaces: u64,
) -> Result<Recovered> {
    let run = Run { env, storage: StorageClient::new(env), log };
    let claim = Random::from_system().next_u64();
    let mut core = RecoveryCore::new(node.clone(), replaces, claim);
    let mut running: FuturesUnordered<_> =
        core.start().into_iter().map(|command| run.carry_out(command)).collect();
    let deadline = Instant::now() + RECOVERY_PATIENCE;
    let mut silent = None;
    while let Ok(Some(event)) = timeout_at(deadline, running.next()).await {
        let event = event?;
        if let RecoveryEvent::NoAnswer(place) = &event {
            silent = Some(*place);
        }
        for command in core.handle(event) {
            match command {
                RecoveryCommand::Serve { view, tail } => {
                    return Ok(Recovered::Serving(SequencerCore::new(view, tail)));
                }
                RecoveryCommand::Adopt(view) => return Ok(Recovered::Adopted(view)),
                command => running.push(run.carry_out(command)),
            }
        }
    }
    Err(run.gave_up(silent).await)
}

struct Run<'a> {
    env: &'a LogEnv,
    storage: StorageClient,
    log: &'a LogName,
}

impl Run<'_> {
    async fn carry_out(&self, command: RecoveryCommand) -> Result<RecoveryEvent> {
        match command {
            RecoveryCommand::ReadView => {
                stored_view(&*self.env.views, self.log).await.map(RecoveryEvent::View)
            }
            RecoveryCommand::Propose(view) => match self.env.views.propose(&view).await {
                Ok(()) => Ok(RecoveryEvent::Proposed),
                Err(error) if is_undecided(&error) => Ok(RecoveryEvent::NotProposed),
                Err(error) => Err(error),
            },
            RecoveryCommand::Seal { view, place } => {
                let object = object_of(&view, place)?;
                let sealed = self.storage.seal(Addressed::by(&view, &object)).await;
                found(place, sealed, RecoveryEvent::Sealed).await
            }
            RecoveryCommand::AskMaximum { view, place } => {
                let object = object_of(&view, place)?;
                let maximum = self.storage.max_position(Addressed::by(&view, &object)).await;
                found(place, maximum, RecoveryEvent::Maximum).await
            }
            RecoveryCommand::Serve { .. } | RecoveryCommand::Adopt(_) => {
                unreachable!("these end the recovery")
            }
        }
    }

    async fn gave_up(&self, silent: Option<Place>) -> Error {
        let object = match (silent, self.env.views.current(self.log).await) {
            (Some(place), Ok(Some(view))) => view.object(place),
            _ => None,
        };
        match object {
            Some(object) => {
                let target = self.env.placement.locate(&object);
                Error::unavailable(format!("the log's tail cannot be found without {object}"))
                    .on(self.log)
                    .hint(format!("bring target {target} back"))
            }
            None => Error::unavailable("the log's tail was not found in time").on(self.log),
        }
    }
}

pub(super) fn object_of(view: &View, place: Place) -> Result<ObjectId> {
    view.object(place).ok_or_else(|| Error::corrupt("a view without its own place").on(view.log()))
}

/// Whether a proposal's outcome must be looked up: it lost, or nobody knows.
pub(super) fn is_undecided(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Stale | ErrorKind::Invalid | ErrorKind::Unavailable)
}

async fn found(
    place: Place,
    answer: CallResult<Option<u64>>,
    event: impl FnOnce(Place, Option<u64>) -> RecoveryEvent,
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
