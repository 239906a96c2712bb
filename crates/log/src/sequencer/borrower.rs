//! A client that holds the sequencer's exclusive capability: it issues the log's positions itself.
//!
//! A client that asks often for positions also asks for the capability. While the client has it, a
//! task polls the sequencer. Each poll reports the client's tail; each answer renews the lease or
//! revokes the capability. The client returns the capability when it is revoked, when it has been
//! idle for a while, and when the handle is dropped.
//!
//! **Invariant:** a position is issued once. While this client holds a grant, nobody else issues
//! positions from its tail on. The client first ends the grant in its own memory, and only then
//! reports the tail to the sequencer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_capability::limits::{LEASE, RENEW_EVERY};
use nacre_capability::{Holder, Time};
use nacre_clock::Random;
use nacre_host::{AuthorityClient, Backoff, is_transient};
use nacre_object::limits::MAX_EXACT_INTEGER;
use nacre_object::{ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::lending_messages::{Acquire, Acquired, Hold, decode_acquired, decode_news};
use super::messages::{ACQUIRE, Question};
use crate::LogName;
use crate::client::{Issued, ViewCache};
use crate::core::{Grant, News, Returned};
use crate::limits::MAX_TOKENS;
use crate::view::View;

/// A client that asks for positions this many times within [`ASKS_WITHIN`] also asks for the
/// capability. A client that appends rarely would gain nothing from it.
const ASKS_BEFORE: u32 = 4;
const ASKS_WITHIN: Duration = Duration::from_secs(1);
/// A client returns a capability that it has not used for this long. If its process dies later, no
/// other client has to wait for the end of the lease.
const IDLE: Duration = Duration::from_millis(500);
/// While another client follows the log, the holder reports its tail at this interval, so that the
/// follower sees a new record within 10 ms.
const TELL_EVERY: Duration = Duration::from_millis(2);
/// How many times the client tries to return a grant. If all attempts fail, the sequencer waits for
/// the end of the lease.
const RETURN_ATTEMPTS: usize = 3;

/// Issues positions if it may.
#[derive(Debug)]
pub(super) struct Borrower {
    /// The number that identifies this client.
    client: u64,
    authority: Arc<AuthorityClient<View, Issued>>,
    views: Arc<ViewCache>,
    started: Instant,
    state: Mutex<State>,
    /// Wakes the task that polls the sequencer.
    moved: Notify,
    /// Held while a task asks for the capability, so that only one does at a time.
    acquiring: tokio::sync::Mutex<()>,
    attempts: Attempts,
}

#[derive(Debug)]
struct State {
    lent: Option<Borrowed>,
    /// A grant that has ended, until the sequencer has acknowledged its return.
    unreturned: Option<Returned>,
    is_closed: bool,
    /// Until then the client asks only for positions, not for the capability.
    again_at: Instant,
    /// How many requests for positions were sent since `asks_since`.
    asks: u32,
    asks_since: Instant,
    /// Whether the sequencer's node knows of no capability.
    is_unsupported: bool,
}

/// A grant of the capability, while this client holds it.
#[derive(Debug)]
struct Borrowed {
    holder: Holder,
    /// The next position to issue, and one past the last.
    next: u64,
    end: u64,
    /// A caller that uses these positions must know the view of this epoch.
    epoch: u64,
    view: Arc<View>,
    /// The number of the sequencer's last request for the tail that this client knows.
    asked: u64,
    is_followed: bool,
    /// The tail that was reported last, and since when it has been the tail.
    told: u64,
    idle_since: Time,
    /// Whether the task has been woken since it looked last.
    is_woken: bool,
    /// When fewer positions than this are left, the client wakes its polling task. The poll reports
    /// the tail, so the sequencer adds a stripe.
    low: u64,
}

/// Numbers of attempts to get the capability.
#[derive(Debug, Default)]
struct Attempts {
    number: AtomicU64,
    /// When the last one was sent, in microseconds.
    sent: AtomicU64,
}

/// The request for the capability. Each attempt has its own number.
struct Acquiring<'a> {
    borrower: &'a Borrower,
    count: u32,
    returned: Option<Returned>,
}

impl nacre_host::Question<LogName> for Acquiring<'_> {
    fn method(&self) -> &'static str {
        ACQUIRE
    }

    fn encode(&self, log: &LogName, epoch: u64) -> Bytes {
        let Self { borrower, count, returned } = *self;
        let number = borrower.attempts.number.fetch_add(1, Ordering::AcqRel) + 1;
        // Before it is sent: the lease counts from here.
        let sent = borrower.now().as_micros() as u64;
        borrower.attempts.sent.store(sent, Ordering::Release);
        let client = borrower.client;
        Question::Acquire(Acquire { client, number, count, returned }).encode(log, epoch)
    }
}

impl Borrower {
    pub fn new(authority: Arc<AuthorityClient<View, Issued>>, views: Arc<ViewCache>) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            lent: None,
            unreturned: None,
            is_closed: false,
            again_at: now,
            asks: 0,
            asks_since: now,
            is_unsupported: false,
        };
        Arc::new(Self {
            client: 1 + Random::from_system().below(MAX_EXACT_INTEGER - 1),
            authority,
            views,
            started: now,
            state: Mutex::new(state),
            moved: Notify::new(),
            acquiring: tokio::sync::Mutex::default(),
            attempts: Attempts::default(),
        })
    }

    fn now(&self) -> Time {
        self.started.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Issues up to `count` positions, if this client may.
    pub fn take(&self, count: u32) -> Option<(Grant, Arc<View>)> {
        let (grant, view, number) = {
            let mut state = self.state();
            let lent = state.lent.as_mut()?;
            let left = lent.end.saturating_sub(lent.next);
            let wanted = left.min(u64::from(count.clamp(1, MAX_TOKENS)));
            if wanted == 0 {
                return None;
            }
            let taken = lent.holder.take(self.now(), wanted).ok()?;
            let grant = Grant { first: lent.next, count: taken as u32, epoch: lent.epoch };
            lent.next += taken;
            let is_low = lent.end - lent.next < lent.low;
            let is_spent = lent.holder.is_spent();
            if (lent.is_followed || is_low || is_spent) && !lent.is_woken {
                lent.is_woken = true;
                self.moved.notify_one();
            }
            (grant, Arc::clone(&lent.view), lent.holder.number())
        };
        let view = self.views.note(grant, view)?;
        if grant.is_void_in(&view) {
            // Another sequencer is in charge. It has sealed the objects, so they refuse the epoch
            // of this grant.
            self.drop_lent(number);
            return None;
        }
        Some((grant, view))
    }

    /// The number of this client. 0 if the sequencer's node runs a release in which clients have no
    /// numbers.
    pub fn number(&self) -> u64 {
        if self.state().is_unsupported { 0 } else { self.client }
    }

    /// Records that the sequencer's node runs a release without capabilities.
    pub fn set_unsupported(&self) {
        self.state().is_unsupported = true;
    }

    /// The tail and its epoch, if this client issues the positions.
    pub fn tail(&self) -> Option<(u64, u64)> {
        let now = self.now();
        let mut state = self.state();
        let lent = state.lent.as_mut()?;
        lent.holder.is_live(now).then_some((lent.next, lent.epoch))
    }

    /// Whether the next request for positions shall ask for the capability too.
    pub fn wants(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        if now - state.asks_since > ASKS_WITHIN {
            (state.asks, state.asks_since) = (0, now);
        }
        state.asks = state.asks.saturating_add(1);
        !state.is_unsupported && state.asks > ASKS_BEFORE && now >= state.again_at
    }

    /// Asks for positions and for the capability. Returns `None` if the sequencer's node does not
    /// support capabilities.
    pub async fn acquire(
        self: &Arc<Self>,
        count: u32,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Option<(Grant, Arc<View>)>> {
        let _once = self.acquiring.lock().await;
        if let Some(taken) = self.take(count) {
            return Ok(Some(taken));
        }
        let returned = self.end();
        let question = Acquiring { borrower: self, count, returned };
        let (answer, asked) = match self.authority.ask(&question, patience, deadline).await {
            Ok(answered) => answered,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.set_unsupported();
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.state().unreturned = None;
        let number = self.attempts.number.load(Ordering::Acquire);
        let sent = Duration::from_micros(self.attempts.sent.load(Ordering::Acquire));
        match decode_acquired(answer)? {
            Acquired::Positions(grant, again) => {
                self.state().again_at = Instant::now() + again;
                let view = self.views.heard_of_grant(grant, asked).await?;
                Ok(Some((grant, view)))
            }
            Acquired::Lent { grant, lease, end, operations } => {
                let view = self.views.heard_of_grant(grant, asked).await?;
                let mut holder = Holder::new(number, sent, lease, operations);
                holder.count(grant.count.into());
                self.hold(holder, grant, end, &view);
                Ok(Some((grant, view)))
            }
        }
    }

    /// Begins to issue the positions behind those of `grant`.
    fn hold(self: &Arc<Self>, holder: Holder, grant: Grant, end: u64, view: &Arc<View>) {
        let number = holder.number();
        let lent = Borrowed {
            holder,
            next: grant.end(),
            end,
            epoch: grant.epoch,
            view: Arc::clone(view),
            asked: 0,
            is_followed: false,
            told: grant.first,
            idle_since: self.now(),
            is_woken: false,
            low: (end - grant.first).div_ceil(2),
        };
        let mut state = self.state();
        state.lent = Some(lent);
        drop(state);
        tokio::spawn(Arc::clone(self).ask_for_news(number));
    }

    /// Ends the grant, if there is one. Returns the ended grant, which the caller must return to
    /// the sequencer.
    fn end(&self) -> Option<Returned> {
        let mut state = self.state();
        if let Some(mut lent) = state.lent.take() {
            state.unreturned = Some(Returned {
                client: self.client,
                number: lent.holder.number(),
                tail: lent.next,
                operations: lent.holder.end(),
            });
            self.moved.notify_one();
        }
        state.unreturned
    }

    /// Ends a grant that its sequencer may have forgotten. If the sequencer still knows the grant,
    /// the client returns it with its next request.
    fn drop_lent(&self, number: u64) {
        if self.holds(number) {
            self.end();
        }
    }

    fn holds(&self, number: u64) -> bool {
        self.state().lent.as_ref().is_some_and(|lent| lent.holder.number() == number)
    }

    /// Gives the grant back for good.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.moved.notify_one();
    }

    /// Gives the grant of this number back. A later one stays.
    async fn give_back_only(&self, number: u64) {
        if self.holds(number) {
            self.give_back().await;
        }
    }

    /// Gives the grant back, if there is one.
    pub async fn give_back(&self) {
        let Some(returned) = self.end() else { return };
        let mut backoff = Backoff::new();
        for _ in 0..RETURN_ATTEMPTS {
            let told = self.authority.ask_now(&Question::Return(returned), LEASE).await;
            // If the node is not the sequencer any more, the grant has ended anyway.
            if told.is_ok() || told.is_err_and(|error| error.kind() != ErrorKind::Unavailable) {
                let mut state = self.state();
                if state.unreturned == Some(returned) {
                    state.unreturned = None;
                }
                return;
            }
            backoff.wait().await;
        }
    }

    /// Polls the sequencer until the grant has ended.
    async fn ask_for_news(self: Arc<Self>, number: u64) {
        // A grant for a single operation is used up at once. A busy client returns such a grant
        // with its next request for positions. So leave time for that request before the first
        // poll.
        if self.must_give_back(number) {
            sleep(TELL_EVERY).await;
        }
        let mut backoff = Backoff::new();
        while let Some(hold) = self.report(number) {
            let sent = self.now();
            let question = Question::Hold(hold);
            let asked = self.authority.ask_now(&question, RENEW_EVERY + LEASE);
            let answer = tokio::select! {
                answer = asked => answer,
                () = self.until_moved(number) => continue,
            };
            match answer.and_then(|(answer, _)| decode_news(answer)) {
                Ok(Some(news)) => {
                    backoff = Backoff::new();
                    self.hear(number, sent, news).await;
                }
                Ok(None) => return self.give_back_only(number).await,
                // The sequencer's node may be back before the lease is over.
                Err(error) if is_transient(&error) && error.kind() != ErrorKind::Stale => {
                    if !self.is_live(number) {
                        return self.give_back_only(number).await;
                    }
                    backoff.wait().await;
                }
                Err(_) => return self.drop_lent(number),
            }
        }
        if self.must_give_back(number) {
            self.give_back_only(number).await;
        }
    }

    /// The next report to the sequencer. `None` if the grant has ended or must be returned.
    fn report(&self, number: u64) -> Option<Hold> {
        if self.must_give_back(number) {
            return None;
        }
        let mut state = self.state();
        let lent = state.lent.as_mut().filter(|lent| lent.holder.number() == number)?;
        lent.is_woken = false;
        if lent.next != lent.told {
            (lent.told, lent.idle_since) = (lent.next, self.now());
        }
        let told = Returned {
            client: self.client,
            number,
            tail: lent.next,
            operations: lent.holder.operations(),
        };
        let (answered, is_followed) = (lent.asked, lent.is_followed);
        Some(Hold { told, answered, is_followed, wait: RENEW_EVERY })
    }

    fn must_give_back(&self, number: u64) -> bool {
        let (now, state) = (self.now(), self.state());
        let lent = state.lent.as_ref().filter(|lent| lent.holder.number() == number);
        lent.is_some_and(|lent| {
            let is_idle = lent.next == lent.told && now >= lent.idle_since + IDLE;
            // A busy client returns a used-up grant with its next request for positions. This
            // client has not done so, so it is not busy.
            state.is_closed || is_idle || lent.holder.is_spent()
        })
    }

    fn is_live(&self, number: u64) -> bool {
        let (now, mut state) = (self.now(), self.state());
        let lent = state.lent.as_mut().filter(|lent| lent.holder.number() == number);
        lent.is_some_and(|lent| lent.holder.is_live(now))
    }

    /// Waits until there is something to report, and at least [`TELL_EVERY`].
    async fn until_moved(&self, number: u64) {
        let not_before = Instant::now() + TELL_EVERY;
        self.moved.notified().await;
        let is_ending = {
            let state = self.state();
            let lent = state.lent.as_ref().filter(|lent| lent.holder.number() == number);
            state.is_closed || lent.is_none()
        };
        if !is_ending {
            sleep_until(not_before).await;
        }
    }

    /// Takes in that the grant stands.
    async fn hear(&self, number: u64, sent: Time, news: News) {
        // A caller that uses the new positions must know their view.
        let view = self.views.at_least(news.epoch).await.ok();
        let mut state = self.state();
        let lent = state.lent.as_mut().filter(|lent| lent.holder.number() == number);
        let Some(lent) = lent else { return };
        lent.holder.renew(sent, news.lease);
        lent.asked = lent.asked.max(news.asked);
        lent.is_followed = news.is_followed;
        if let Some(view) = view.filter(|_| news.end > lent.end) {
            lent.low = (news.end - lent.next).div_ceil(2);
            (lent.end, lent.epoch, lent.view) = (news.end, news.epoch, view);
        }
    }
}
