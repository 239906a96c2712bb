//! The state that the handles of a session and its tasks share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_object::{Error, ErrorKind, Result};
use nacre_telemetry::{Sampler, Trace};
use tokio::sync::{Notify, Semaphore, watch};

use super::call::{Call, Repeat};
use super::options::SessionOptions;
use super::pace::ClientPace;
use super::send_budget::{Posted, SendBudget};
use super::session::NodeInfo;
use super::table::{Begun, End, Table};
use super::ticket::Ticket;
use crate::Endpoint;
use crate::limits::{CLIENT_BUDGET_BYTES, REQUEST_COST_BYTES};
use crate::outbox::Outbox;
use nacre_protocol::decode;
use nacre_protocol::proto::ServerMessage;
use nacre_protocol::proto::server_message::Body as Answer;

/// Whether calls can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    Down,
    /// The node refuses this client. Calls fail at once, while the session keeps trying.
    Refused,
    Up,
    /// For good.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) options: SessionOptions,
    /// Changed under the table's lock, so that the two agree.
    pub(crate) state: watch::Sender<LinkState>,
    /// The memory budget for requests in flight, in bytes. Abandoned messages in the outbox keep
    /// their share.
    budget: Semaphore,
    table: Mutex<Table>,
    /// Wakes the task that checks deadlines and abandoned messages.
    pub(crate) sweep: Notify,
    sampler: Option<Mutex<Sampler>>,
}

impl Shared {
    pub(crate) fn new(endpoint: Endpoint, options: SessionOptions) -> Self {
        let now = options.clock.monotonic();
        let sampler = options.sampling.as_ref().map(|sampling| Mutex::new(sampling.sampler()));
        Self {
            endpoint,
            options,
            sampler,
            state: watch::Sender::new(LinkState::Down),
            budget: Semaphore::new(CLIENT_BUDGET_BYTES),
            table: Mutex::new(Table::new(now)),
            sweep: Notify::new(),
        }
    }

    /// Returns a new trace for the next request, if the request belongs to no trace and sampling
    /// chooses it.
    pub(crate) fn sample(&self) -> Option<Trace> {
        let sampler = self.sampler.as_ref().filter(|_| Trace::current().is_none())?;
        sampler.lock().unwrap_or_else(PoisonError::into_inner).pick()
    }

    /// Makes a call and waits for its answer.
    ///
    /// # Errors
    /// Any error of the node; `Unavailable` if no answer came in time or the outcome is unknown.
    pub(crate) async fn exchange(self: &Arc<Self>, call: &Call) -> Result<Answer> {
        let mut now = self.now();
        let give_up = now.saturating_add(call.deadline);
        let mut budget = self.budget_for(call, give_up).await?;
        loop {
            let Some(ticket) = self.begin(call, now, give_up) else {
                // Box this future, because it is rarely needed: a future is as large as the largest
                // future that it may wait for.
                Box::pin(self.await_link(give_up)).await?;
                now = self.now();
                continue;
            };
            budget.posted = Some(ticket.posted);
            let end = ticket.await;
            if !matches!(end, Some(End::Late)) {
                budget.posted = None;
            }
            match end {
                Some(End::Answered(Answer::Error(error))) => return Err(decode::error(*error)),
                Some(End::Answered(answer)) => return Ok(answer),
                Some(End::NotBegun) => {}
                Some(End::Broken) if call.repeat == Repeat::Safe => {}
                Some(End::Broken) => return Err(self.broken()),
                Some(End::Late) => return Err(self.late(call.deadline)),
                None => return Err(self.closed()),
            }
            now = self.now();
        }
    }

    /// The budget that calls in flight use.
    pub(crate) fn under_way_bytes(&self) -> usize {
        CLIENT_BUDGET_BYTES - self.budget.available_permits()
    }

    /// Waits for a share of the budget, after earlier callers.
    async fn budget_for(&self, call: &Call, give_up: Duration) -> Result<SendBudget<'_>> {
        let cost = call.body.len().clamp(REQUEST_COST_BYTES, CLIENT_BUDGET_BYTES) as u32;
        if let Ok(permit) = self.budget.try_acquire_many(cost) {
            return Ok(SendBudget::new(self, permit));
        }
        let left = give_up.saturating_sub(self.now());
        match Box::pin(tokio::time::timeout(left, self.budget.acquire_many(cost))).await {
            Ok(Ok(permit)) => Ok(SendBudget::new(self, permit)),
            Ok(Err(_)) => Err(self.closed()),
            Err(_) => Err(Error::unavailable(format!(
                "{} earlier requests to {} filled the client's budget",
                self.lock().call_count(),
                self.endpoint
            ))
            .hint("this request was not sent: send fewer at a time, or give it a longer deadline")),
        }
    }

    fn begin(
        self: &Arc<Self>,
        call: &Call,
        now: Duration,
        give_up: Duration,
    ) -> Option<Ticket<'_>> {
        let mut table = self.lock();
        let Begun { id, posted, end } = table.begin(call, now, give_up)?;
        self.look_after(&mut table);
        drop(table);
        Some(Ticket { shared: self, id, posted, end, ended: false })
    }

    /// Makes sure that the task `sweep` runs while there are deadlines or abandoned messages.
    fn look_after(&self, table: &mut Table) {
        if !table.swept {
            table.swept = true;
            self.sweep.notify_one();
        }
    }

    /// Takes over the message of a caller that gave up. Returns whether the message still waits to
    /// be sent. If so, the message keeps its share of the budget until it is sent.
    pub(crate) fn leave_behind(&self, posted: Posted, bytes: usize) -> bool {
        let mut table = self.lock();
        let is_waiting = table.leave_behind(posted, bytes);
        if is_waiting {
            self.look_after(&mut table);
        }
        is_waiting
    }

    /// Waits for a connection, at most for the session's patience and until `give_up`.
    pub(crate) async fn await_link(&self, give_up: Duration) -> Result<()> {
        let mut state = self.state.subscribe();
        let until = give_up.min(self.lock().down_since.saturating_add(self.options.patience));
        let left = until.saturating_sub(self.now());
        let changed = state.wait_for(|state| *state != LinkState::Down);
        let changed = tokio::time::timeout(left, changed).await.map(|state| state.map(|s| *s));
        match changed {
            Ok(Ok(LinkState::Up)) => Ok(()),
            Ok(Ok(LinkState::Refused)) => Err(self.unreachable()),
            Ok(_) => Err(self.closed()),
            Err(_) => Err(self.unreachable()),
        }
    }

    /// Notes that the session is connected.
    pub(crate) fn connected(&self, outbox: Outbox, pace: ClientPace, node: NodeInfo) {
        let mut table = self.lock();
        table.connected(outbox, pace, node);
        self.set_state(LinkState::Up);
    }

    /// The connection is lost, because of `failure`.
    pub(crate) fn disconnected(&self, outbox: &Outbox, failure: Error) {
        let now = self.now();
        let mut table = self.lock();
        self.budget.add_permits(table.disconnected(now));
        table.failure = Some(failure);
        table.break_all(outbox);
        self.set_state(LinkState::Down);
    }

    /// Notes that an attempt to connect failed.
    pub(crate) fn failed(&self, failure: Error) {
        let refused = failure.kind() == ErrorKind::Denied;
        let mut table = self.lock();
        table.failure = Some(failure);
        self.set_state(if refused { LinkState::Refused } else { LinkState::Down });
    }

    /// Takes note of a batch from the node.
    pub(crate) fn hear(&self, batch: Vec<ServerMessage>) {
        let mut answers = Vec::with_capacity(batch.len());
        let closing = batch.iter().any(|each| matches!(each.body, Some(Answer::Closing(_))));
        let mut table = self.lock();
        if closing {
            let now = self.now();
            self.budget.add_permits(table.disconnected(now));
            self.set_state(LinkState::Down);
        }
        batch.into_iter().for_each(|message| table.hear(message, &mut answers));
        drop(table);
        for (caller, answer) in answers {
            let _ = caller.send(End::Answered(answer));
        }
    }

    /// Ends the wait of callers whose deadline has passed. Frees the budget of abandoned messages
    /// that have been sent since. Returns whether any callers or abandoned messages are left.
    pub(crate) fn expire(&self) -> bool {
        let now = self.now();
        let mut table = self.lock();
        self.budget.add_permits(table.take_freed());
        table.swept = table.expire(now);
        table.swept
    }

    pub(crate) fn abandon(&self, id: u64) {
        self.lock().abandon(id);
    }

    pub(crate) fn unwatch(&self, id: u64) {
        self.lock().unwatch(id);
    }

    pub(crate) fn node(&self) -> Option<NodeInfo> {
        self.lock().node.clone()
    }

    /// Ends the session, for good.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.close();
        self.budget.close();
        self.set_state(LinkState::Closed);
    }

    /// Waits until the session is closed.
    pub(crate) async fn until_closed(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| *state == LinkState::Closed).await;
    }

    fn set_state(&self, new: LinkState) {
        self.state.send_if_modified(|state| {
            let changes = *state != LinkState::Closed && *state != new;
            if changes {
                *state = new;
            }
            changes
        });
    }

    pub(crate) fn now(&self) -> Duration {
        self.options.clock.monotonic()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nothing that holds this lock panics")
    }

    fn broken(&self) -> Error {
        Error::unavailable(format!("the connection to {} broke", self.endpoint))
            .hint("the request may have been carried out: check that before you send it again")
    }

    fn late(&self, deadline: Duration) -> Error {
        Error::unavailable(format!("no answer from {} within {deadline:?}", self.endpoint))
            .hint("the request may have been carried out: check that before you send it again")
    }

    fn closed(&self) -> Error {
        Error::unavailable(format!("the session with {} is closed", self.endpoint))
            .hint("open another session")
    }

    fn unreachable(&self) -> Error {
        let failure = self.lock().failure.clone();
        let why = failure.as_ref().map_or("the node did not answer in time", Error::message);
        let kind = match failure.as_ref().map(Error::kind) {
            Some(kind @ (ErrorKind::Unsupported | ErrorKind::Denied)) => kind,
            _ => ErrorKind::Unavailable,
        };
        let error = Error::new(kind, format!("cannot reach {}: {why}", self.endpoint));
        match failure.as_ref().and_then(Error::hint_text) {
            Some(hint) => error.hint(hint),
            None if kind == ErrorKind::Denied => error,
            None => error.hint("the request was not sent; `nacre status` shows which nodes run"),
        }
    }
}
