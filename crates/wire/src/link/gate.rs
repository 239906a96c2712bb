//! `Gate`: lets messages pass one direction of a network link, at the speed of the link. A task
//! that wants to send or receive bytes makes an entry at the gate, and waits until the gate lets
//! the entry pass.
//!
//! While entries wait, one task drives the gate: it sleeps until the link is free, lets the next
//! entry pass, and wakes the task that waits for this entry.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nacre_clock::Clock;
use nacre_object::TenantName;
use nacre_qos::Link;
use nacre_qos::scheduler::{RequestId, Share, TenantId};
use tokio::time::sleep;

use super::link_order::LinkOrder;

/// One direction of a link. Clones are handles to the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The order of the entries. `None` while the speed of the link is not set; then every entry
    /// passes at once.
    turns: Option<LinkOrder>,
    /// The waiting entries. An entry has the waker of its task once the task has polled its ticket.
    waiting: HashMap<RequestId, Option<Waker>>,
    /// Whether a task drives the gate.
    is_driven: bool,
}

/// An entry at a gate. Dropping the ticket removes the entry if it still waits.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The gate, and the numbers of the tenant and the entry there; `None` once the entry may pass.
    waits: Option<(Gate, TenantId, RequestId)>,
}

impl Gate {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner { clock, state: Mutex::default() }))
    }

    /// Sets the speed of the link and the shares of tenants. With `None`, every entry passes at
    /// once.
    pub(crate) fn set(&self, link: Option<(Link, BTreeMap<TenantName, Share>)>) {
        let now = self.0.clock.monotonic();
        let mut state = self.lock();
        match (link, &mut state.turns) {
            (Some((link, shares)), Some(turns)) => turns.set(link, shares, now),
            (Some((link, shares)), none) => *none = Some(LinkOrder::new(link, shares)),
            (None, _) => {
                state.turns = None;
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                waiting.into_values().flatten().for_each(Waker::wake);
            }
        }
    }

    /// Makes an entry for `messages` messages of `bytes` bytes in total. Must be called inside a
    /// Tokio runtime.
    pub(crate) fn enter(&self, tenant: &TenantName, messages: usize, bytes: usize) -> Ticket {
        let now = self.0.clock.monotonic();
        let mut state = self.lock();
        let entered =
            state.turns.as_mut().and_then(|turns| turns.enter(tenant, messages, bytes, now));
        let Some((tenant, request)) = entered else { return Ticket { waits: None } };
        state.waiting.insert(request, None);
        state.pass(now);
        let starts = state.next_at().is_some() && !state.is_driven;
        state.is_driven |= starts;
        drop(state);
        if starts {
            tokio::spawn(self.clone().drive());
        }
        Ticket { waits: Some((self.clone(), tenant, request)) }
    }

    /// Lets the next entry pass whenever the link becomes free, until no entry waits.
    async fn drive(self) {
        loop {
            let now = self.0.clock.monotonic();
            let next_at = {
                let mut state = self.lock();
                state.pass(now);
                let next_at = state.next_at();
                state.is_driven = next_at.is_some();
                next_at
            };
            let Some(next_at) = next_at else { return };
            sleep(next_at.saturating_sub(now)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pass(&mut self, now: std::time::Duration) {
        let Some(turns) = &mut self.turns else { return };
        while let Some(request) = turns.next(now) {
            if let Some(Some(waker)) = self.waiting.remove(&request) {
                waker.wake();
            }
        }
    }

    fn next_at(&self) -> Option<std::time::Duration> {
        self.turns.as_ref()?.next_at()
    }
}

impl Ticket {
    /// Ready once the entry may pass. If the entry must wait, the gate later wakes the task of
    /// `context`.
    pub(crate) fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some((gate, _, request)) = &self.waits else { return Poll::Ready(()) };
        let mut state = gate.lock();
        let Some(waker) = state.waiting.get_mut(request) else {
            drop(state);
            self.waits = None;
            return Poll::Ready(());
        };
        match waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some((gate, tenant, request)) = self.waits.take() else { return };
        let now = gate.0.clock.monotonic();
        let mut state = gate.lock();
        if state.waiting.remove(&request).is_some()
            && let Some(turns) = &mut state.turns
        {
            turns.leave(tenant, request, now);
        }
    }
}
