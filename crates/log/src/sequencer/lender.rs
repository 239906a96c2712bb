//! The host's side of lending a sequencer to a client. [`Lending`](crate::core::Lent) decides who
//! gets the capability; the tasks of this module wait for its decisions.
//!
//! A waiting task looks at the sequencer again whenever its state changes or a deadline is due. It
//! also evicts an overdue holder: the node takes the log over from itself, so the log is claimed
//! again, sealed and recovered.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nacre_capability::Question;
use nacre_capability::limits::RENEW_EVERY;
use nacre_host::{EpochRefusal, Look, Looks, NotReady, busy, deposed};
use nacre_object::Result;
use tokio::time::{Instant, timeout_at};

use super::host::{NoGrant, SequencerHost};
use super::hosting::LogSlot;
use super::lending_messages::{Acquired, Hold};
use crate::LogName;
use crate::core::{Answer, News, Returned, SequencerCore, Wanted};
use crate::view::View;

/// How long a change of the view waits until the holder has returned its grant. The lease is over
/// by then. After this time the log is recovered instead.
const RECALL_PATIENCE: Duration = Duration::from_secs(1);

/// Whether a client holds the capability.
pub(super) fn is_lent(slot: &LogSlot) -> bool {
    slot.machine().as_ref().is_some_and(SequencerCore::is_lent)
}

impl SequencerHost {
    /// Gives a client positions, and also the capability if the client wants it and no client
    /// before it does.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if a holder keeps the client waiting past
    /// `busy_at`.
    pub(super) async fn ask(
        &self,
        log: &LogName,
        slot: &Arc<LogSlot>,
        wanted: &Wanted,
        busy_at: Instant,
    ) -> Result<Result<Acquired, NoGrant>> {
        let waiting = {
            let mut core = slot.machine();
            let Some(serving) = core.as_mut() else {
                return Ok(Err(NoGrant::NotReady(NotReady::NotServing)));
            };
            if let Err(refusal) = serving.check(wanted.epoch) {
                return Ok(Err(NoGrant::NotReady(NotReady::Epoch(refusal))));
            }
            let installed = serving.view().sequencer().map_or(0, |sequencer| sequencer.epoch);
            let ticket = serving.ask(self.now(), wanted.clone());
            Waiting { host: self, slot, installed, ticket }
        };
        let mut is_new = true;
        let look = || {
            let look = self.look(log, slot, &waiting);
            if std::mem::take(&mut is_new) && matches!(look, Look::Wait(_)) {
                // The holder is told. Nobody else waits for this question.
                slot.tell_change();
            }
            look
        };
        match slot.look_until(busy_at, look).await {
            Some(Some((answer, is_short))) => self.acquired(slot, answer, is_short),
            Some(None) => Ok(Err(NoGrant::NotReady(NotReady::Epoch(EpochRefusal::Stale)))),
            None => Err(busy("another client issues the log's positions")),
        }
    }

    /// Checks whether a question can be answered now, and whether the sequencer runs short of
    /// positions. `None` if the sequencer that got the question is not in charge any more.
    fn look(
        &self,
        log: &LogName,
        slot: &Arc<LogSlot>,
        waiting: &Waiting<'_>,
    ) -> Look<Option<(Answer, bool)>> {
        let due_at = {
            let mut core = slot.machine();
            let Some(serving) = waiting.serving(&mut core) else { return Look::Found(None) };
            if let Some(answer) = serving.fetch(waiting.ticket) {
                return Look::Found(Some((answer, serving.is_running_short())));
            }
            self.due_at(serving)
        };
        self.wait(log, slot, due_at)
    }

    /// Does what is due. Returns the time when something is due next, or an error if the holder
    /// must be evicted.
    fn due_at(&self, serving: &mut SequencerCore) -> std::result::Result<Option<Instant>, Overdue> {
        serving.tick(self.now());
        match serving.is_overdue() {
            true => Err(Overdue),
            false => Ok(serving.due_at().map(|due_at| self.instant(due_at))),
        }
    }

    /// Waits until something is due, and evicts the holder first if it must be.
    fn wait<T>(
        &self,
        log: &LogName,
        slot: &Arc<LogSlot>,
        due_at: std::result::Result<Option<Instant>, Overdue>,
    ) -> Look<T> {
        Look::Wait(due_at.unwrap_or_else(|Overdue| {
            self.evict(log, slot);
            None
        }))
    }

    /// What a client is told of an answer.
    fn acquired(
        &self,
        slot: &Arc<LogSlot>,
        answer: Answer,
        is_short: bool,
    ) -> Result<Result<Acquired, NoGrant>> {
        let (grant, acquired) = match answer {
            Answer::Positions(grant, again) => (grant, Acquired::Positions(grant, again)),
            Answer::Lent(grant, lent) => {
                let (lease, end, operations) = (lent.lease, lent.end, lent.operations);
                (grant, Acquired::Lent { grant, lease, end, operations })
            }
            Answer::Full => return Ok(Err(NoGrant::Full)),
            Answer::Epoch(refusal) => return Ok(Err(NoGrant::NotReady(NotReady::Epoch(refusal)))),
            Answer::Late => return Err(deposed::<View>()),
            Answer::Busy => return Err(busy("too many clients wait for the log's positions")),
        };
        self.note_grant(slot, grant, is_short);
        Ok(Ok(acquired))
    }

    /// Answers a holder that asks for news, as soon as there is news or its waiting time is over.
    ///
    /// # Errors
    /// `Stale` if the client must read the log's view again; otherwise as for
    /// [`Host::get_ready`](nacre_host::Host::get_ready).
    pub(super) async fn hold(&self, log: &LogName, epoch: u64, hold: Hold) -> Result<Option<News>> {
        let slot = self.host.slot(log)?;
        let (received, number) =
            (self.now(), slot.beside.holds.fetch_add(1, Ordering::Relaxed) + 1);
        let deadline = Instant::now() + hold.wait.min(RENEW_EVERY);
        let mut looks = Looks::default();
        let end = loop {
            match self.hear(&slot, epoch, &hold) {
                Ok(Some(end)) => break end,
                Ok(None) => return Ok(None),
                Err(why) => self.host.get_ready(log, why, &mut looks).await?,
            }
        };
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            let followers = slot.beside.followers.load(Ordering::Relaxed) > 0;
            let is_late = Instant::now() >= deadline
                || slot.beside.holds.load(Ordering::Relaxed) != number
                || (followers && !hold.is_followed);
            let due_at = {
                let mut core = slot.machine();
                let serving = core.as_mut().ok_or_else(deposed::<View>)?;
                let Returned { client, number, .. } = hold.told;
                // The grant may be due to be revoked by now.
                serving.tick(self.now());
                let has_news = serving.has_news(client, number, hold.answered);
                if is_late || has_news || serving.view().end() != end {
                    let news = serving.news(self.now(), received, hold.told);
                    return Ok(news.map(|news| News { is_followed: followers, ..news }));
                }
                serving.due_at().map_or(deadline, |due_at| self.instant(due_at).min(deadline))
            };
            // Either way there is an answer the next time round, or nothing new.
            let _elapsed = timeout_at(due_at, changed).await;
        }
    }

    /// Takes a holder's report of its tail. Returns the end of the positions in the served view, or
    /// `None` if the holder's grant has ended.
    fn hear(
        &self,
        slot: &Arc<LogSlot>,
        epoch: u64,
        hold: &Hold,
    ) -> std::result::Result<Option<u64>, NotReady> {
        let mut core = slot.machine();
        let serving = core.as_mut().ok_or(NotReady::NotServing)?;
        serving.check(epoch).map_err(NotReady::Epoch)?;
        let before = serving.tail_now();
        let stands = serving.hear(self.now(), hold.told, hold.answered);
        self.positions.add(serving.tail_now() - before);
        let (is_short, end) = (serving.is_running_short(), serving.view().end());
        drop(core);
        // Followers wait for the tail, and others for an answer of the holder.
        slot.tell_change();
        if is_short {
            self.extend_later(slot);
        }
        Ok(stands.then_some(end))
    }

    /// Takes a returned grant. Returns the epoch of the served view.
    ///
    /// # Errors
    /// `Stale` if this node does not serve the log's sequencer; then the grant has ended, too.
    pub(super) fn take_back(&self, log: &LogName, epoch: u64, returned: Returned) -> Result<u64> {
        let slot = self.host.known_slot(log.as_str()).ok_or_else(deposed::<View>)?;
        let served = {
            let core = slot.machine();
            let serving = core.as_ref().ok_or_else(deposed::<View>)?;
            // An old epoch means that the holder's grant came from an earlier sequencer.
            serving.check(epoch).map_err(|_| deposed::<View>())?;
            serving.view().epoch()
        };
        self.return_to(&slot, returned);
        Ok(served)
    }

    pub(super) fn return_to(&self, slot: &LogSlot, returned: Returned) {
        if let Some(serving) = slot.machine().as_mut() {
            let before = serving.tail_now();
            serving.take_back(self.now(), returned);
            self.positions.add(serving.tail_now() - before);
        }
        slot.tell_change();
    }

    /// The tail as it is after the question came: the holder's, if there is one.
    pub(super) async fn exact_tail(
        &self,
        log: &LogName,
        slot: &Arc<LogSlot>,
        epoch: u64,
    ) -> Result<(u64, u64)> {
        let mut looks = Looks::default();
        let mut question = TailQuestion::default();
        let busy_at = Instant::now() + RECALL_PATIENCE;
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            let due_at = match question.put(self, slot, epoch) {
                Told::Tail(tail, epoch) => return Ok((tail, epoch)),
                Told::NotReady(why) => {
                    self.host.get_ready(log, why, &mut looks).await?;
                    continue;
                }
                Told::Overdue => {
                    self.evict(log, slot);
                    busy_at
                }
                Told::Wait(due_at) => due_at.map_or(busy_at, |due_at| due_at.min(busy_at)),
            };
            let elapsed = timeout_at(due_at, changed).await.is_err();
            if elapsed && Instant::now() >= busy_at {
                return Err(busy("the client that issues the log's positions does not answer"));
            }
        }
    }

    /// Makes the holder return the capability. No client gets the capability until the guard that
    /// this function returns is dropped.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if the holder is silent: it is being evicted.
    pub(super) async fn recall(&self, log: &LogName) -> Result<Recalled> {
        let slot = self.host.slot(log)?;
        self.recall_slot(&slot).await
    }

    /// See [`SequencerHost::recall`].
    pub(super) async fn recall_slot(&self, slot: &Arc<LogSlot>) -> Result<Recalled> {
        let recalled = Recalled { slot: Arc::clone(slot) };
        if let Some(serving) = slot.machine().as_mut() {
            serving.bar(self.now());
        }
        slot.tell_change();
        let returned = slot.look_until(Instant::now() + RECALL_PATIENCE, || {
            let (log, due_at) = {
                let mut core = slot.machine();
                match core.as_mut().filter(|serving| serving.is_lent()) {
                    Some(serving) => (serving.view().log().clone(), self.due_at(serving)),
                    None => return Look::Found(()),
                }
            };
            self.wait(&log, slot, due_at)
        });
        match returned.await {
            Some(()) => Ok(recalled),
            None => Err(busy("the client that issues the log's positions does not answer")),
        }
    }

    /// Evicts the holder, unless that is under way.
    fn evict(&self, log: &LogName, slot: &Arc<LogSlot>) {
        if self.host.fence(log, slot) {
            self.evictions.add(1);
        }
    }
}

/// That the holder must be evicted.
struct Overdue;

/// The epoch by which a sequencer was installed.
fn installed(serving: &SequencerCore) -> u64 {
    serving.view().sequencer().map_or(0, |sequencer| sequencer.epoch)
}

/// A question that possibly has to wait for a holder. If this value is dropped, the question is
/// withdrawn.
struct Waiting<'a> {
    host: &'a SequencerHost,
    slot: &'a LogSlot,
    /// Which sequencer was asked: its successor knows no ticket of it.
    installed: u64,
    ticket: u64,
}

impl Waiting<'_> {
    /// The sequencer, if it is still the one that was asked.
    fn serving<'c>(&self, core: &'c mut Option<SequencerCore>) -> Option<&'c mut SequencerCore> {
        core.as_mut().filter(|serving| installed(serving) == self.installed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut core = self.slot.machine();
        if let Some(serving) = self.serving(&mut core) {
            serving.withdraw(self.host.now(), self.ticket);
        }
    }
}

/// A question for the tail, which a holder may have to be asked.
#[derive(Default)]
struct TailQuestion {
    /// By which sequencer the holder was asked what.
    asked: Option<(u64, Vec<Question>)>,
}

enum Told {
    /// The tail, and the epoch of the view that is served.
    Tail(u64, u64),
    NotReady(NotReady),
    /// The holder must be evicted.
    Overdue,
    Wait(Option<Instant>),
}

impl TailQuestion {
    fn put(&mut self, host: &SequencerHost, slot: &LogSlot, epoch: u64) -> Told {
        let mut core = slot.machine();
        let Some(serving) = core.as_mut() else { return Told::NotReady(NotReady::NotServing) };
        let tail = match serving.tail(epoch) {
            Ok(tail) => tail,
            Err(refusal) => return Told::NotReady(NotReady::Epoch(refusal)),
        };
        let (installed, now) = (installed(serving), host.now());
        let known = self.asked.take().filter(|(by, _)| *by == installed);
        let is_new = known.is_none();
        let questions = known.map_or_else(|| serving.question_holder(now), |(_, asked)| asked);
        if serving.is_answered(&questions) && !serving.is_overdue() {
            return Told::Tail(tail, serving.view().epoch());
        }
        self.asked = Some((installed, questions));
        serving.tick(now);
        let (is_overdue, due_at) = (serving.is_overdue(), serving.due_at());
        drop(core);
        if is_new {
            slot.tell_change();
        }
        match is_overdue {
            true => Told::Overdue,
            false => Told::Wait(due_at.map(|due_at| host.instant(due_at))),
        }
    }
}

/// While it lives, nobody is lent the sequencer.
#[derive(Debug)]
pub(super) struct Recalled {
    slot: Arc<LogSlot>,
}

impl Drop for Recalled {
    fn drop(&mut self) {
        if let Some(serving) = self.slot.machine().as_mut() {
            serving.unbar();
        }
    }
}

/// Counts the clients that wait for a greater tail. While there are any, a holder reports its tail
/// more often.
pub(super) struct Following<'a>(&'a LogSlot);

impl<'a> Following<'a> {
    pub fn new(slot: &'a LogSlot) -> Self {
        slot.beside.followers.fetch_add(1, Ordering::Relaxed);
        if is_lent(slot) {
            slot.tell_change();
        }
        Self(slot)
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.beside.followers.fetch_sub(1, Ordering::Relaxed);
    }
}
