//! Grants, polls and returns of the sequencer's capability, as the host serves them.
//! [`Lending`](crate::core::Lent) decides who gets the capability; the tasks of this module wait
//! for its decisions.
//!
//! A waiting task looks at the sequencer again whenever its state changes and at each deadline. It
//! also evicts an overdue holder: the node takes the log over from itself, so it claims the log
//! again, seals it and recovers it.

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

/// How long a change of the view waits for the holder to return its grant. By then the lease is
/// over, and the node recovers the log instead.
const RECALL_PATIENCE: Duration = Duration::from_secs(1);

/// Whether a client holds the capability.
pub(super) fn is_lent(slot: &LogSlot) -> bool {
    slot.machine().as_ref().is_some_and(SequencerCore::is_lent)
}

impl SequencerHost {
    /// Gives a client positions. Also gives it the capability, if the client wants it and no other
    /// client has waited longer.
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
                // Wake the task that answers the holder's poll.
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

    /// Returns the answer to a waiting request, with whether few positions are left; or how long to
    /// wait for the answer. `Found(None)` means that the sequencer that took the request was
    /// deposed.
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

    /// Acts on all deadlines that have passed. Returns the next deadline, or an error if the holder
    /// must be evicted.
    fn due_at(&self, serving: &mut SequencerCore) -> std::result::Result<Option<Instant>, Overdue> {
        serving.tick(self.now());
        match serving.is_overdue() {
            true => Err(Overdue),
            false => Ok(serving.due_at().map(|due_at| self.instant(due_at))),
        }
    }

    /// Returns how long to wait for the next deadline. If the holder must be evicted, starts the
    /// eviction.
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

    /// Makes the reply to a client from an answer of [`Lending`](crate::core::Lent).
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

    /// Answers a holder's poll, as soon as there is news or its waiting time is over.
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
            // The loop looks again, whether the deadline or a change ended the wait.
            let _elapsed = timeout_at(due_at, changed).await;
        }
    }

    /// Takes a holder's report of its tail. Returns one past the last position of the served view,
    /// or `None` if the holder's grant has ended.
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
        // Wake the followers, which wait for the tail, and the tasks that wait for the holder's
        // report.
        slot.tell_change();
        if is_short {
            self.extend_later(slot);
        }
        Ok(stands.then_some(end))
    }

    /// Takes a returned grant. Returns the epoch of the served view.
    ///
    /// # Errors
    /// `Stale` if this node does not serve the log's sequencer; the grant has then ended, too.
    pub(super) fn take_back(&self, log: &LogName, epoch: u64, returned: Returned) -> Result<u64> {
        let slot = self.host.known_slot(log.as_str()).ok_or_else(deposed::<View>)?;
        let served = {
            let core = slot.machine();
            let serving = core.as_ref().ok_or_else(deposed::<View>)?;
            // If the epoch is old, an earlier sequencer gave the grant.
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

    /// A tail that includes all positions issued before this request. If a client holds the
    /// capability, this asks the holder for its tail.
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

    /// Makes the holder return the capability. No client gets the capability until the returned
    /// guard is dropped.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if the holder is silent. It is then being
    /// evicted.
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

    /// Starts to evict the holder, unless an eviction already runs.
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

/// A request that may have to wait for a holder. Dropping this value withdraws the request.
struct Waiting<'a> {
    host: &'a SequencerHost,
    slot: &'a LogSlot,
    /// The epoch of the sequencer that gave the ticket. Its successor does not know the ticket.
    installed: u64,
    ticket: u64,
}

impl Waiting<'_> {
    /// The sequencer, if it is still the one that gave the ticket.
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

/// A request for the tail. If a client holds the capability, the holder must report its tail first.
#[derive(Default)]
struct TailQuestion {
    /// The epoch of the sequencer that asked the holder, and its questions to the holder.
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

/// While this exists, no client gets the capability.
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
