//! Makes a session share the node's network link with others ([`LinkShaper`]): decides in which
//! lane of the outbox an answer waits, and when the session may read its next batch.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nacre_object::TenantName;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use super::Caller;
use crate::LinkShaper;
use crate::limits::{MAX_READ_PAUSE, MAX_SHARED_READ_PAUSE, PART_BYTES};
use crate::link::Ticket;
use crate::outbox::{Cutting, Lane, Outbox};
use nacre_protocol::proto::Part;
use nacre_protocol::proto::client_message::Body as Asked;

/// `ServerMessage.part`.
const PART_FIELD: u32 = 10;

/// The part of a session that waits for the node's link.
#[derive(Debug)]
pub(crate) struct SessionLink {
    shaper: Option<Arc<LinkShaper>>,
    cutting: Cutting,
    /// The last speed that the session sent to the client.
    pub(crate) told_speed: u64,
    /// What the session has read since its last pause, by tenant.
    read: Vec<ReadBytes>,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct ReadBytes {
    tenant: TenantName,
    messages: usize,
    bytes: usize,
}

/// The wait until the next batch may be read.
#[derive(Debug)]
struct Pause {
    tickets: Vec<Ticket>,
    longest: Pin<Box<Sleep>>,
}

impl SessionLink {
    /// The link of a session. `takes_parts` says whether the client accepts parts of messages;
    /// `told_speed` is the speed that the session has sent to the client.
    pub(crate) fn new(shaper: Option<Arc<LinkShaper>>, takes_parts: bool, told_speed: u64) -> Self {
        let cutting =
            if takes_parts { Cutting::Parts { field: PART_FIELD } } else { Cutting::Whole };
        Self { shaper, cutting, told_speed, read: vec![], pause: None }
    }

    /// Reports the speed of the link, if the client takes parts. Other clients are not told the
    /// speed.
    pub(crate) fn speed(&self) -> Option<watch::Receiver<u64>> {
        let shaper = self.shaper.as_ref().filter(|_| self.cutting != Cutting::Whole);
        shaper.map(|shaper| shaper.speed())
    }

    /// Notes that the session has read a message of `bytes` bytes. Returns the lane of the outbox
    /// in which the answer is to wait.
    pub(crate) fn lane(
        &mut self,
        caller: &Caller,
        asked: &Asked,
        bytes: usize,
        outbox: &Outbox,
    ) -> Lane {
        let Some(shaper) = self.shaper.as_ref().filter(|shaper| shaper.is_on()) else {
            return Lane::MAIN;
        };
        let tenant = shaper.tenant_of(caller.tenant(), pool_of(asked));
        let lane = match asked {
            // An answer in another lane could be sent after the first events of the watch.
            Asked::Watch(_) => Lane::MAIN,
            _ => outbox.lane(&tenant, "", shaper.sent(), self.cutting),
        };
        self.note(tenant, bytes);
        lane
    }

    /// Notes that the session has read a part of a message.
    pub(crate) fn note_part(&mut self, caller: &Caller, part: &Part) {
        let Some(shaper) = self.shaper.as_ref().filter(|shaper| shaper.is_on()) else { return };
        let pool = Some(part.pool.as_str()).filter(|pool| !pool.is_empty());
        self.note(shaper.tenant_of(caller.tenant(), pool), part.bytes.len());
    }

    fn note(&mut self, tenant: TenantName, bytes: usize) {
        match self.read.iter_mut().find(|read| read.tenant == tenant) {
            Some(read) => {
                read.messages += 1;
                read.bytes += bytes;
            }
            None => self.read.push(ReadBytes { tenant, messages: 1, bytes }),
        }
    }

    /// Ready once the session may read its next batch. If the session must wait, the task of
    /// `context` is woken later.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.read.is_empty() && self.pause.is_none() {
            return Poll::Ready(());
        }
        let Some(shaper) = self.shaper.as_ref().filter(|shaper| shaper.is_on()) else {
            self.read.clear();
            self.pause = None;
            return Poll::Ready(());
        };
        let read = &mut self.read;
        let pause = self.pause.get_or_insert_with(|| {
            let longest = if read.len() > 1 { MAX_SHARED_READ_PAUSE } else { MAX_READ_PAUSE };
            let enter =
                |read: ReadBytes| shaper.received().enter(&read.tenant, read.messages, read.bytes);
            let tickets = read.drain(..).map(enter).collect();
            Pause { tickets, longest: Box::pin(sleep(longest)) }
        });
        pause.tickets.retain_mut(|ticket| ticket.poll_turn(context).is_pending());
        if !pause.tickets.is_empty() {
            ready!(pause.longest.as_mut().poll(context));
        }
        self.pause = None;
        Poll::Ready(())
    }
}

/// The pool whose owner's share of the link a message uses.
pub(crate) fn pool_of(asked: &Asked) -> Option<&str> {
    match asked {
        Asked::Request(request) => Some(&request.pool),
        Asked::List(list) => Some(&list.pool),
        Asked::Watch(watch) => Some(&watch.pool),
        Asked::Notify(notify) => Some(&notify.pool),
        Asked::Ask(_) | Asked::Hello(_) | Asked::Unwatch(_) | Asked::Part(_) => None,
    }
}

/// Waits until a unary call may send or receive this many bytes over the link.
pub(crate) async fn pass(
    shaper: Option<&LinkShaper>,
    direction: Direction,
    tenant: &TenantName,
    bytes: usize,
) {
    let Some(shaper) = shaper.filter(|shaper| shaper.is_on()) else { return };
    let gate = match direction {
        Direction::Sent => shaper.sent(),
        Direction::Received => shaper.received(),
    };
    let mut left = bytes;
    loop {
        let part = left.min(PART_BYTES);
        let mut ticket = gate.enter(tenant, usize::from(left == bytes), part);
        std::future::poll_fn(|context| ticket.poll_turn(context)).await;
        left -= part;
        if left == 0 {
            return;
        }
    }
}

/// A direction of the link, as the node sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    /// What the node sends.
    Sent,
    /// What the node receives.
    Received,
}
