//! The view changes that a sequencer makes: another stripe, a new layout, another class, or a
//! trimmed front (CORFU, section 3.1: changing the mapping).
//!
//! In the paper, a client changes the mapping. It seals all objects of the old mapping, so that no
//! other client writes to them, and finds the tail from their answers. Here the sequencer changes
//! the mapping. It knows the tail, and every writer gets its position from it, so the old objects
//! need no seal:
//!
//! 1. Draft the next view, and seal its new objects. If a target does not seal them in time, draft
//!    another view without the target.
//! 2. If no position moves (a longer range, another class or a trimmed front), propose the draft
//!    while serving.
//! 3. A new layout from the tail on moves positions. First store a view that differs only in its
//!    epoch, to check that views can be stored. Then hold the sequencer, so that it answers no
//!    client, for some milliseconds: cut the last range at the tail, propose, and serve the stored
//!    view.
//!
//! **Invariants:**
//! - Objects are sealed before a view that names them is proposed, so no client meets a missing
//!   object.
//! - A position has one object in all views under which it was issued. A range is cut at the tail,
//!   and positions below the tail stay where they are. The paused sequencer ([`PausedMachine`])
//!   issues no position from the tail on before the cut is decided.
//! - While a client holds the sequencer's capability, the tail is unknown, so the last range is not
//!   cut.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use nacre_host::{PausedMachine, busy, deposed, propose_while_serving};
use nacre_object::{ClassName, Error, ErrorKind, ProgramName, Result, TargetName};
use tokio::time::timeout;

use super::hosting::{LogSlot, Sequencers};
use super::messages::Reconfiguration;
use super::recovery::object_of;
use crate::core::SequencerCore;
use crate::env::LogEnv;
use crate::limits::RANGES_TO_GO_ROUND;
use crate::storage::{Addressed, CallFailure, StorageClient, speaks_rows};
use crate::view::{EntryLocation, Layout, View};

/// A target that does not seal an empty object within this time gets no new stripe.
pub(crate) const SEAL_PATIENCE: Duration = Duration::from_secs(1);
/// How long the sequencer waits for an unused target to seal an empty object, to see whether the
/// target is back. Each new stripe waits for this check. With the default number of slots, the
/// remaining half of the current stripe lasts longer than that.
const BACK_PATIENCE: Duration = Duration::from_millis(200);
/// How many times another class or policy is proposed while other changes of the view win.
const MAX_PROPOSALS: usize = 3;

/// Adds a stripe before the last one is full. If some targets are unused because they were silent,
/// first checks whether they answer again.
///
/// # Errors
/// `Unavailable` if the new objects or the new view cannot be written; `Exhausted` at a bound of
/// views or on a full disk; `Stale` if this sequencer is deposed.
pub(super) async fn extend(env: &LogEnv, slot: &LogSlot) -> Result<()> {
    let view = match slot.machine().as_ref() {
        Some(core) if core.is_running_short() => core.view().clone(),
        _ => return Ok(()),
    };
    if let Some(away) = won_back(env, &view).await {
        return relayout(env, slot, view.layout(), away).await.map(drop);
    }
    let longer = view.extended(1)?;
    let stripe = longer.last_range().stripe_count() - 1;
    let silent = seal(env, &longer, places(&longer, stripe), SEAL_PATIENCE).await?;
    if silent.is_empty() {
        propose_while_serving(&*env.views, slot, &longer).await.map(drop)
    } else {
        relayout(env, slot, view.layout(), silent).await.map(drop)
    }
}

/// Checks whether unused targets answer again. If a new layout could use more targets than the
/// present one, returns the targets that it must still avoid. Otherwise returns `None`: a new
/// layout would use up one of the view's limited ranges for nothing.
async fn won_back(env: &LogEnv, view: &View) -> Option<Vec<TargetName>> {
    let used = view.current_targets(&*env.placement);
    let usable = env.placement.targets().len().min(view.layout().width as usize);
    if used.len() >= usable || !may_choose(view, view.layout()) {
        return None;
    }
    let draft = view.cut(view.lowest_tail(), view.layout(), &*env.placement, &[]).ok()?;
    let target_of = |place: &EntryLocation| Some(env.placement.locate(&draft.object(*place)?));
    let is_unused =
        |place: &EntryLocation| target_of(place).is_some_and(|target| !used.contains(&target));
    let unused: Vec<_> = places(&draft, 0).into_iter().filter(is_unused).collect();
    let asked: BTreeSet<_> = unused.iter().filter_map(target_of).collect();
    // A target that answers with an error is of no more use than a silent one.
    let away = seal(env, &draft, unused, BACK_PATIENCE).await.ok()?;
    (away.len() < asked.len()).then_some(away)
}

/// Whether the view has enough ranges left for a layout that the log does not need. The last ranges
/// are reserved for layouts that avoid lost targets.
fn may_choose(view: &View, layout: Layout) -> bool {
    view.ranges_left(layout.width) > RANGES_TO_GO_ROUND
}

/// Makes a change for a client that knows the view of `epoch`. Returns the epoch afterwards.
///
/// # Errors
/// `Stale` if this sequencer is deposed; otherwise the errors of the [`View`] method for the
/// change.
pub(super) async fn reconfigure(
    env: &LogEnv,
    slot: &LogSlot,
    epoch: u64,
    change: Reconfiguration,
) -> Result<u64> {
    let (view, tail) = served(slot)?;
    match change {
        Reconfiguration::Relayout { layout: None, avoid } => {
            // Many clients may report the same dead target. Ignore all reports after the first.
            let targets = view.current_targets(&*env.placement);
            if epoch < view.epoch() || !targets.iter().any(|target| avoid.contains(target)) {
                return Ok(view.epoch());
            }
            relayout(env, slot, view.layout(), avoid).await
        }
        Reconfiguration::Relayout { layout: Some(layout), avoid } => {
            let layout = layout.check()?;
            if !may_choose(&view, layout) {
                let kept =
                    format!("{RANGES_TO_GO_ROUND} ranges are kept for targets that are lost");
                return Err(view.no_ranges().hint(format!("trim the log first: {kept}")));
            }
            relayout(env, slot, layout, avoid).await
        }
        Reconfiguration::Class(class) => use_class(env, slot, class).await,
        Reconfiguration::Capability(program) => lend_by(env, slot, program).await,
        Reconfiguration::Forget(position) if position <= view.kept_from() => Ok(view.epoch()),
        Reconfiguration::Forget(position) if position > tail => {
            let text = format!("position {position} is past the log's tail, which is {tail}");
            Err(Error::invalid(text).hint("name a position below the tail"))
        }
        Reconfiguration::Forget(position) => {
            propose_while_serving(&*env.views, slot, &view.forgetting_below(position)).await
        }
    }
}

/// Makes another class store the log's entries. Returns the epoch of the view with that class.
async fn use_class(env: &LogEnv, slot: &LogSlot, class: ClassName) -> Result<u64> {
    // The stored view may be another proposal for the same epoch, for example an earlier proposal
    // whose answer was lost. So check the stored view, and propose again.
    for _ in 0..MAX_PROPOSALS {
        let (view, _) = served(slot)?;
        check_replaces(&class, view.class())?;
        let epoch =
            propose_while_serving(&*env.views, slot, &view.with_class(class.clone())).await?;
        if *served(slot)?.0.class() == class {
            return Ok(epoch);
        }
    }
    Err(changes_all_the_time())
}

/// Makes another policy decide about the sequencer's capability. Returns the epoch of the view with
/// that policy.
async fn lend_by(env: &LogEnv, slot: &LogSlot, program: Option<ProgramName>) -> Result<u64> {
    for _ in 0..MAX_PROPOSALS {
        let (view, _) = served(slot)?;
        if view.capability() == program.as_ref() {
            return Ok(view.epoch());
        }
        let next = view.with_capability(program.clone());
        let epoch = propose_while_serving(&*env.views, slot, &next).await?;
        if served(slot)?.0.capability() == program.as_ref() {
            return Ok(epoch);
        }
    }
    Err(changes_all_the_time())
}

fn changes_all_the_time() -> Error {
    Error::unavailable(
        "the change was not made, because other changes of the log's view came first each time",
    )
    .hint("try again")
}

/// Opens a new range at the tail, without the targets in `avoid` and without others that do not
/// answer.
async fn relayout(
    env: &LogEnv,
    slot: &LogSlot,
    layout: Layout,
    mut avoid: Vec<TargetName>,
) -> Result<u64> {
    // Each round finds a silent target more, or is the last.
    for _ in 0..=env.placement.targets().len() {
        let (view, tail) = served(slot)?;
        // The tail may advance while the new objects are sealed. That does not matter, because
        // objects are named by range, stripe and column, not by their first position.
        let draft = view
            .cut(tail, layout, &*env.placement, &avoid)
            .map_err(|error| without_room(error, &avoid))?;
        let silent = seal(env, &draft, places(&draft, 0), SEAL_PATIENCE).await?;
        if silent.is_empty() {
            // Check that views can be stored before the log stands still. The store of the view may
            // still answer reads but accept no writes.
            propose_while_serving(&*env.views, slot, &view.renewed()).await?;
            return cut(env, slot, layout, &avoid).await;
        }
        avoid.extend(silent);
    }
    Err(Error::unavailable("no storage target answers").hint("bring a target back, and try again"))
}

/// Holds the sequencer, ends the last range at the tail and opens another range there. Returns the
/// epoch of the stored view.
///
/// # Errors
/// As for [`View::cut`]; `Stale` if this sequencer is deposed. After `Unavailable` or `NotFound`
/// the outcome is unknown, and the sequencer stops serving.
async fn cut(env: &LogEnv, slot: &LogSlot, layout: Layout, avoid: &[TargetName]) -> Result<u64> {
    let held = PausedMachine::<Sequencers>::hold(slot)?;
    if slot.machine().as_ref().is_some_and(SequencerCore::is_lent) {
        return Err(busy("a client issues the log's positions: it must return that right first"));
    }
    let cut =
        |core: &SequencerCore| core.view().cut(core.tail_now(), layout, &*env.placement, avoid);
    held.propose(&*env.views, cut).await
}

/// The view under which this node serves the log, and the tail.
///
/// # Errors
/// `Stale` if this node does not serve the log, because its sequencer is deposed.
fn served(slot: &LogSlot) -> Result<(View, u64)> {
    let core = slot.machine();
    core.as_ref().map(|core| (core.view().clone(), core.tail_now())).ok_or_else(deposed::<View>)
}

/// If no range is left for a layout without lost targets, adds a hint to the error: bring a target
/// back, or trim the log.
fn without_room(error: Error, lost: &[TargetName]) -> Error {
    if error.kind() != ErrorKind::Exhausted || lost.is_empty() {
        return error;
    }
    let lost: Vec<_> = lost.iter().map(TargetName::as_str).collect();
    let lost = lost.join(", ");
    error.hint(format!("bring {lost} back, or trim the log: wholly trimmed ranges leave the view"))
}

fn places(view: &View, stripe: u64) -> Vec<EntryLocation> {
    view.last_range().stripe_places(stripe).collect()
}

/// Seals the objects of a log's first view, before the view is stored. Returns the targets that did
/// not answer in time.
///
/// # Errors
/// Those of the log's class.
pub(crate) async fn seal_first(
    env: &LogEnv,
    view: &View,
    patience: Duration,
) -> Result<Vec<TargetName>> {
    seal(env, view, places(view, 0), patience).await
}

/// Seals new objects of a view. Returns the targets that did not answer in time.
async fn seal(
    env: &LogEnv,
    view: &View,
    places: Vec<EntryLocation>,
    patience: Duration,
) -> Result<Vec<TargetName>> {
    let storage = StorageClient::new(env);
    let seal = async |place| {
        let object = object_of(view, place)?;
        match timeout(patience, storage.seal(Addressed::by(view, &object))).await {
            // Sealed already: by an attempt to propose this very view.
            Ok(Ok(_) | Err(CallFailure::Stale)) => Ok(None),
            Ok(Err(CallFailure::NoAnswer(_))) | Err(_) => Ok(Some(env.placement.locate(&object))),
            Ok(Err(CallFailure::Failed(error))) => Err(error),
            Ok(Err(CallFailure::Unsealed)) => Err(Error::corrupt(format!(
                "the log's object {object} is missing, and must be sealed"
            ))
            .hint("`nacre scrub` says what is damaged")),
        }
    };
    let sealed = join_all(places.into_iter().map(seal)).await;
    let silent: Result<BTreeSet<_>> = sealed.into_iter().filter_map(Result::transpose).collect();
    Ok(silent?.into_iter().collect())
}

/// Checks that a class can replace another one: both must store entries in the same format.
fn check_replaces(class: &ClassName, former: &ClassName) -> Result<()> {
    match speaks_rows(class) == speaks_rows(former) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "class {class} cannot read the entries that class {former} stored"
        ))
        .hint("create another log with that class")),
    }
}
