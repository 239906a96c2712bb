//! Carries out what [`TakeoverCore`] decides.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nacre_clock::Random;
use nacre_object::{NodeName, Result};
use tokio::time::{Instant, timeout_at};

use super::hosting::{CommandOf, EventOf, FoundOf, Hosting, NameOf};
use super::slot::Slot;
use crate::core::{TakeoverCommand, TakeoverCore, TakeoverEvent};
use crate::outcome::is_undecided;
use crate::records::stored;

/// A takeover that takes longer than this fails, with an error that says what it waits for.
const TAKEOVER_PATIENCE: Duration = Duration::from_secs(20);

/// The outcome of a takeover.
pub(super) enum Outcome<K: Hosting> {
    /// This node is the authority.
    Serving(K::Machine),
    /// Another node was first.
    Adopted(K::Record),
}

/// Makes `node` the authority of a state machine. If a record with an epoch later than `replaces`
/// is stored, adopts that record instead. Meanwhile the machine's slot tells waiting clients which
/// object does not answer.
///
/// # Errors
/// `NotFound` if there is no such machine; `Unavailable` if an object that must be sealed does not
/// answer.
pub(super) async fn take_over<K: Hosting>(
    node: &NodeName,
    kind: &K,
    name: &NameOf<K>,
    slot: &Slot<K>,
    replaces: u64,
) -> Result<Outcome<K>> {
    let claim = Random::from_system().next_u64();
    let mut core = TakeoverCore::<K::Recovery>::new(node.clone(), replaces, claim);
    let start = core.start();
    let mut running: FuturesUnordered<_> =
        start.into_iter().map(|command| carry_out(kind, name, command)).collect();
    let deadline = Instant::now() + TAKEOVER_PATIENCE;
    while let Ok(Some(event)) = timeout_at(deadline, running.next()).await {
        for command in core.handle(event?) {
            match command {
                TakeoverCommand::Serve { record, found } => {
                    return Ok(Outcome::Serving(kind.machine(record, found)));
                }
                TakeoverCommand::Adopt(record) => return Ok(Outcome::Adopted(record)),
                command => running.push(carry_out(kind, name, command)),
            }
        }
        slot.set_waits_for(Some(kind.gave_up(name, core.recovery())));
    }
    Err(kind.gave_up(name, core.recovery()))
}

async fn carry_out<K: Hosting>(
    kind: &K,
    name: &NameOf<K>,
    command: TakeoverCommand<K::Record, CommandOf<K>, FoundOf<K>>,
) -> Result<TakeoverEvent<K::Record, EventOf<K>>> {
    match command {
        TakeoverCommand::ReadRecord => {
            stored(kind.records(), name).await.map(TakeoverEvent::Record)
        }
        TakeoverCommand::Propose(record) => match kind.records().propose(&record).await {
            Ok(()) => Ok(TakeoverEvent::Proposed),
            Err(error) if is_undecided(&error) => Ok(TakeoverEvent::NotProposed),
            Err(error) => Err(error),
        },
        TakeoverCommand::Recover(command) => {
            kind.carry_out(command).await.map(TakeoverEvent::Recovery)
        }
        TakeoverCommand::Serve { .. } | TakeoverCommand::Adopt(_) => {
            unreachable!("these end the take-over")
        }
    }
}
