//! Hosts the sequencers of logs on a node: issues positions, answers requests for the tail, and
//! changes views.
//!
//! [`Host`] claims and recovers a sequencer before it serves. When the positions of a log are about
//! to run out, this module creates the log's next stripe.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use nacre_capability::{ALONE, Asker, Time};
use nacre_host::{
    BUSY_AFTER, ClientRouting, EpochRefusal, FORWARD_PATIENCE, Forward, Host, Looks, NotReady,
    Question as _, busy, encode_epoch,
};
use nacre_object::{EntityName, NodeName, Result, TenantName};
use nacre_telemetry::{Counter, HistogramSnapshot};
use tokio::time::{Instant, timeout_at};

use super::hosting::{LogSlot, Sequencers};
use super::lender::{Following, is_lent};
use super::lending_messages::{Acquire, Acquired, encode_acquired, encode_news};
use super::messages::{Asked, Question, Reconfiguration, decode_grant, encode_grant, encode_tail};
use super::reconfigure::{extend, reconfigure};
use crate::LogName;
use crate::core::{Grant, Returned, Wanted};
use crate::env::LogEnv;

/// The name under which a node offers its host to the wire.
pub const SEQUENCER_SERVICE: &str = "sequencer";
/// The longest a `tail` waits: shorter than any session's deadline.
const MAX_TAIL_WAIT: Duration = Duration::from_secs(20);
/// How long the host waits after it failed to add a stripe, before it tries again.
const EXTEND_AGAIN: Duration = Duration::from_millis(100);

/// Hosts the sequencers of a node. A clone is a handle to the same host.
#[derive(Clone)]
pub struct SequencerHost {
    pub(super) host: Host<Sequencers>,
    pub(super) positions: Arc<Counter>,
    pub(super) evictions: Arc<Counter>,
    /// The start of the clock: all times are counted from here.
    started: Instant,
    /// Requests that could not be answered at once, and have no answer yet.
    waiting: Arc<AtomicI64>,
}

/// Counts of what a host has done since the node started.
#[derive(Debug, Clone, PartialEq)]
pub struct SequencerCounts {
    /// Logs this node is the sequencer of.
    pub logs: usize,
    /// Positions issued.
    pub positions: u64,
    /// How many requests were forwarded to nodes that took sequencers over in proxy mode.
    pub forwards: u64,
    /// Logs whose capability a client holds.
    pub lent: usize,
    /// Holders that did not return a capability in time.
    pub evictions: u64,
    /// Seconds each recovery that made this node a sequencer took.
    pub recovery_seconds: HistogramSnapshot,
}

/// How much one log's sequencer was used on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencerUse {
    /// The log.
    pub log: LogName,
    /// Requests that read the tail, since the node started.
    pub reads: u64,
    /// Requests that moved the tail, since the node started.
    pub writes: u64,
}

/// The client that sends a request to a sequencer.
#[derive(Clone, Copy)]
pub struct SequencerCaller<'a> {
    /// The authenticated entity.
    pub entity: &'a EntityName,
    /// Looks up the client's tenant. Most requests do not need it.
    pub tenant: &'a (dyn Fn() -> TenantName + Sync),
}

impl SequencerCaller<'_> {
    /// A caller in the same process.
    pub fn local() -> SequencerCaller<'static> {
        SequencerCaller { entity: &LOCAL, tenant: &TenantName::standard }
    }

    /// The caller as capability policies see it.
    fn asker(self, client: u64) -> Asker {
        let (entity, tenant) = (self.entity.as_str(), (self.tenant)());
        Asker { client, entity: entity.into(), tenant: tenant.as_str().into() }
    }
}

static LOCAL: LazyLock<EntityName> = LazyLock::new(EntityName::local);

/// Why the sequencer cannot issue positions yet.
pub(super) enum NoGrant {
    NotReady(NotReady),
    /// The next stripe is not ready.
    Full,
}

impl SequencerHost {
    /// The host of `node`. It calls another node only to hand a sequencer over.
    pub fn new(node: NodeName, env: LogEnv) -> Self {
        Self {
            host: Host::new(node, Sequencers(env)),
            positions: Arc::default(),
            evictions: Arc::default(),
            started: Instant::now(),
            waiting: Arc::default(),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.started.elapsed()
    }

    pub(super) fn instant(&self, time: Time) -> Instant {
        self.started + time
    }

    /// The node.
    pub fn node(&self) -> &NodeName {
        self.host.node()
    }

    /// Answers a request that a client sent with
    /// [`HostTransport::ask`](nacre_host::HostTransport::ask).
    ///
    /// # Errors
    /// `Stale` if the client must read the log's view again; `NotFound` if there is no such log;
    /// `Unavailable` if the log cannot be recovered now; `Invalid` or `Unsupported` for a request
    /// that cannot be decoded.
    pub async fn handle(
        &self,
        caller: SequencerCaller<'_>,
        method: &str,
        input: Bytes,
    ) -> Result<Bytes> {
        let Asked { log, epoch, question } = Asked::decode(method, &input)?;
        if let Question::Next { count, client } = question
            && let Some(grant) = self.next_at_once(log, epoch, count, client)
        {
            return Ok(encode_grant(grant));
        }
        // The future of the answer is large, so it is boxed below. Requests that were answered
        // above do not pay for the box.
        let log = LogName::new(log)?;
        // Count the requests that have to wait. Followers and holders wait on purpose, and a
        // forwarded request waits at another node; do not count these.
        let is_held_up = !matches!(question, Question::Tail { .. } | Question::Hold(_))
            && !self.host.is_forwarding(log.as_str());
        let _waiting = is_held_up.then(|| Waiting::new(&self.waiting));
        let answer = Box::pin(self.answer_or_forward(caller, &log, epoch, question)).await;
        answer.map_err(|error| error.on(&log))
    }

    /// Answers a request about positions. Forwards it if this node handed the sequencer over in
    /// proxy mode.
    async fn answer_or_forward(
        &self,
        caller: SequencerCaller<'_>,
        log: &LogName,
        epoch: u64,
        question: Question,
    ) -> Result<Bytes> {
        let wait = match question {
            Question::Next { .. } | Question::Acquire(_) => Duration::ZERO,
            Question::Tail { wait, .. } => wait.min(MAX_TAIL_WAIT),
            _ => return self.answer(caller, log, epoch, question).await,
        };
        let (passed_on, sequencers) = (passed_on(&question), &self.host.kind().0.sequencers);
        let is_acquired = matches!(question, Question::Acquire(_));
        let there = |Forward { node, epoch }| {
            let (input, method) = (passed_on.encode(log, epoch), passed_on.method());
            let patience = FORWARD_PATIENCE + wait;
            async move {
                let asked = sequencers.ask(&node, SEQUENCER_SERVICE, method, input, patience);
                match asked.await {
                    Ok(answer) if is_acquired => {
                        Ok(encode_acquired(Acquired::Positions(decode_grant(answer)?, ALONE)))
                    }
                    answered => answered,
                }
            }
        };
        let here = self.answer(caller, log, epoch, question);
        self.host.answer_or_forward(log, epoch, here, there).await
    }

    async fn answer(
        &self,
        caller: SequencerCaller<'_>,
        log: &LogName,
        epoch: u64,
        question: Question,
    ) -> Result<Bytes> {
        match question {
            Question::Next { count, client } => {
                let wanted = Wanted { asker: caller.asker(client), number: None, count, epoch };
                self.next(log, wanted, None).await.map(|acquired| match acquired {
                    Acquired::Positions(grant, _) | Acquired::Lent { grant, .. } => {
                        encode_grant(grant)
                    }
                })
            }
            Question::Acquire(Acquire { client, number, count, returned }) => {
                let asker = caller.asker(client);
                let wanted = Wanted { asker, number: Some(number), count, epoch };
                self.next(log, wanted, returned).await.map(encode_acquired)
            }
            Question::Hold(hold) => self.hold(log, epoch, hold).await.map(encode_news),
            Question::Return(returned) => self.take_back(log, epoch, returned).map(encode_epoch),
            Question::Tail { beyond, wait } => {
                let answer = self.tail(log, epoch, beyond, wait).await;
                answer.map(|(tail, epoch)| encode_tail(tail, epoch))
            }
            Question::Recover => self.host.recover(log, epoch).await.map(encode_epoch),
            Question::HandOver { to, routing } => {
                self.hand_over(log, to, routing).await.map(encode_epoch)
            }
            Question::Reconfigure(change) => {
                // While a client holds the capability, only that client knows the exact tail. A new
                // layout begins at the tail, so take the capability back first. The view may forget
                // only positions below the tail. Before it forgets some, ask the holder for the
                // tail; the holder keeps the capability.
                let _recalled = match change {
                    Reconfiguration::Relayout { .. } => Some(self.recall(log).await?),
                    Reconfiguration::Forget(_) => {
                        self.exact_tail(log, &self.host.slot(log)?, epoch).await?;
                        None
                    }
                    Reconfiguration::Class(_) | Reconfiguration::Capability(_) => None,
                };
                let changed = self.host.change(log, move |host, slot| async move {
                    reconfigure(&host.kind().0, &slot, epoch, change).await
                });
                changed.await.map(encode_epoch)
            }
        }
    }

    /// Hands a log's sequencer over to another node. Returns the epoch of the latest view that this
    /// node knows afterwards.
    ///
    /// # Errors
    /// As [`Host::hand_over`].
    pub async fn hand_over(
        &self,
        log: &LogName,
        to: NodeName,
        routing: ClientRouting,
    ) -> Result<u64> {
        let _recalled = self.recall(log).await?;
        let sequencers = Arc::clone(&self.host.kind().0.sequencers);
        self.host.hand_over(log, to, sequencers, SEQUENCER_SERVICE, routing).await
    }

    /// The logs this node is the sequencer of.
    pub fn logs(&self) -> Vec<LogName> {
        self.host.serving()
    }

    /// How much each sequencer that this node serves now was used.
    pub fn uses(&self) -> Vec<SequencerUse> {
        let used = |log: LogName| {
            let slot = self.host.known_slot(log.as_str())?;
            let (reads, writes) = (&slot.beside.reads, &slot.beside.writes);
            let [reads, writes] = [reads, writes].map(|count| count.load(Ordering::Relaxed));
            Some(SequencerUse { log, reads, writes })
        };
        self.logs().into_iter().filter_map(used).collect()
    }

    /// How many requests have no answer yet, because they must wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    /// Counts of what this host has done.
    pub fn counts(&self) -> SequencerCounts {
        let logs = self.logs();
        let is_held = |log: &&LogName| {
            let slot = self.host.known_slot(log.as_str());
            slot.is_some_and(|slot| is_lent(&slot))
        };
        SequencerCounts {
            logs: logs.len(),
            lent: logs.iter().filter(is_held).count(),
            evictions: self.evictions.get(),
            positions: self.positions.get(),
            forwards: self.host.forwards(),
            recovery_seconds: self.host.takeover_seconds(),
        }
    }

    /// Issues positions at once, if this node has the log's sequencer and positions are left. This
    /// answers nearly every request.
    fn next_at_once(&self, log: &str, epoch: u64, count: u32, client: u64) -> Option<Grant> {
        let slot = self.host.known_slot(log)?;
        let mut core = slot.machine();
        let serving = core.as_mut()?;
        let grant = serving.next_at_once(epoch, count, client, || self.now()).ok()?;
        let is_short = serving.is_running_short();
        drop(core);
        self.note_grant(&slot, grant, is_short);
        Some(grant)
    }

    /// Counts positions that were issued.
    pub(super) fn note_grant(&self, slot: &Arc<LogSlot>, grant: Grant, is_short: bool) {
        slot.beside.writes.fetch_add(1, Ordering::Relaxed);
        self.positions.add(grant.count.into());
        // Followers wait for the tail.
        slot.tell_change();
        if is_short {
            self.extend_later(slot);
        }
    }

    async fn next(
        &self,
        log: &LogName,
        wanted: Wanted,
        returned: Option<Returned>,
    ) -> Result<Acquired> {
        let slot = self.host.slot(log)?;
        if let Some(returned) = returned {
            self.return_to(&slot, returned);
        }
        let mut looks = Looks::default();
        let mut changed = None;
        // One deadline covers all attempts: a caller that gets no reply assumes this node has died.
        let busy_at = Instant::now() + BUSY_AFTER;
        loop {
            match self.ask(log, &slot, &wanted, busy_at).await? {
                Ok(acquired) => return Ok(acquired),
                Err(NoGrant::NotReady(why)) => self.host.get_ready(log, why, &mut looks).await?,
                Err(NoGrant::Full) => match changed.take() {
                    // Listen for changes, then look once more, so that no change is missed in
                    // between.
                    None => {
                        let mut heard = Box::pin(slot.changed());
                        heard.as_mut().enable();
                        changed = Some(heard);
                    }
                    Some(heard) => {
                        self.extend_later(&slot);
                        if timeout_at(busy_at, heard).await.is_err() {
                            return Err(busy("the log's next stripe is not ready"));
                        }
                        if let Some(refusal) = slot.beside.extension.refusal() {
                            return Err(refusal);
                        }
                    }
                },
            }
        }
    }

    async fn tail(
        &self,
        log: &LogName,
        epoch: u64,
        beyond: u64,
        wait: Duration,
    ) -> Result<(u64, u64)> {
        let slot = self.host.slot(log)?;
        slot.beside.reads.fetch_add(1, Ordering::Relaxed);
        if wait.is_zero() {
            return self.exact_tail(log, &slot, epoch).await;
        }
        let _following = Following::new(&slot);
        let deadline = Instant::now() + wait.min(MAX_TAIL_WAIT);
        let mut looks = Looks::default();
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            match tail(&slot, epoch) {
                Ok((tail, epoch)) if tail > beyond || Instant::now() >= deadline => {
                    return Ok((tail, epoch));
                }
                Ok(_) => {
                    // Either way there is an answer the next time round.
                    let _elapsed = timeout_at(deadline, changed).await;
                }
                Err(why) => self.host.get_ready(log, why, &mut looks).await?,
            }
        }
    }

    async fn extend(&self, slot: &Arc<LogSlot>) -> Result<()> {
        let _alone = slot.alone().await;
        extend(&self.host.kind().0, slot).await
    }

    pub(super) fn extend_later(&self, slot: &Arc<LogSlot>) {
        if !slot.beside.extension.start() {
            return;
        }
        let (host, slot) = (self.clone(), slot.clone());
        tokio::spawn(async move {
            let mut extended = host.extend(&slot).await;
            if extended.is_err() && is_lent(&slot) {
                // The log needs a new layout, which begins at the tail. Only the holder knows the
                // exact tail, so take the capability back.
                let recalled = host.recall_slot(&slot).await;
                extended = match recalled {
                    Ok(_recalled) => host.extend(&slot).await,
                    Err(error) => Err(error),
                };
            }
            if extended.is_err() {
                // A client that needs positions still waits, and starts the next attempt.
                tokio::time::sleep(EXTEND_AGAIN).await;
            }
            slot.beside.extension.end(extended);
            slot.tell_change();
        });
    }
}

/// Makes the request that this node forwards. A request for the capability becomes a request for
/// positions only. The holder of a capability must report its tail directly to the sequencer, and
/// this client reaches the sequencer only through this node.
fn passed_on(question: &Question) -> Question {
    match question {
        Question::Acquire(Acquire { count, .. }) => Question::Next { count: *count, client: 0 },
        other => other.clone(),
    }
}

/// The tail, with the epoch of the view that is served.
fn tail(slot: &LogSlot, epoch: u64) -> Result<(u64, u64), NotReady> {
    let core = slot.machine();
    let core = core.as_ref().ok_or(NotReady::NotServing)?;
    let tail = core.tail(epoch).map_err(|refusal: EpochRefusal| NotReady::Epoch(refusal))?;
    Ok((tail, core.view().epoch()))
}

/// Counts a request as waiting until this is dropped.
struct Waiting<'a>(&'a AtomicI64);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicI64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for SequencerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequencerHost").field("node", self.node()).finish_non_exhaustive()
    }
}
