//! One session in the server: a task that reads messages, runs their work and sends the answers.
//!
//! A message has no task or channel of its own. The session polls the message's work at once, and
//! most work ends in this poll. Only work that has to wait joins the set of work in flight. The
//! session encodes answers directly into the outbox. Each time the session's task is polled, it
//! answers all work that is ready and then wakes the connection once, so these answers share a
//! batch.
//!
//! **Invariants:**
//! - The session begins messages in the order in which they are complete: a message in parts may be
//!   complete later than messages that the client began to send after it.
//! - Work that changes something runs to its end even if its client is gone, because half a change
//!   of many steps is worse than a late change. The session of such work gives its slot to other
//!   sessions ([`SessionSlot`]). Work that changes nothing ends with its client.
//! - The session checks the right to watch again before each event, because rights may have been
//!   revoked.
//! - A session's memory is bounded: work in flight and its bytes, incomplete messages, watches, and
//!   answers that the client has not read. At a bound the session stops reading, even in the middle
//!   of a batch, and HTTP/2 flow control holds the client back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream};
use nacre_object::{Demand, Error, WatchEvent};
use tonic::{Status, Streaming};

use super::Caller;
use super::connection::reached;
use super::idle::Busy;
use super::meter::{Begun, Ending, Kind};
use super::node::{Node, Phase};
use super::received::Received;
use super::session_link::{SessionLink, pool_of};
use super::session_slots::SessionSlot;
use super::stall::Stall;
use super::tracing::Tracing;
use super::under_way::{Outcome, Progress, UnderWay};
use super::watches::Watches;
use crate::codec::Batch;
use crate::limits::{
    MAX_REPLIES_WAITING_BYTES, MAX_UNDER_WAY, MAX_UNDER_WAY_BYTES, REPLIES_WAITING_BYTES,
};
use crate::message::{self, Origin};
use crate::outbox::{Lane, Outbox};
use crate::parts::Parts;
use nacre_protocol::encode;
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::proto::{self as pb, ClientMessage};

/// How many batches the task of a session reads before it lets other tasks run.
const ROUNDS: usize = 16;

/// A notice from the node to a session.
enum Notice {
    /// The server stops.
    Stopping,
    /// The caller's right to have a session has ended.
    Revoked,
    /// The speed of the node's link has changed to this one, in bytes a second.
    LinkSpeed(u64),
}

/// A session, from its welcome to its end.
pub(crate) struct Session {
    node: Arc<Node>,
    caller: Arc<Caller>,
    inbound: Streaming<Batch>,
    /// Whether the session still reads messages. A session that no longer reads ends once the
    /// client has taken its last answer.
    reading: bool,
    /// Messages that were received but not begun.
    backlog: Batch,
    /// When the backlog was read.
    read_at: Duration,
    last_id: u64,
    under_way: FuturesUnordered<UnderWay>,
    /// Memory of the messages in flight.
    under_way_bytes: usize,
    watches: Watches,
    tracing: Tracing,
    /// Messages of which parts are missing.
    parts: Parts,
    link: SessionLink,
    outbox: Outbox,
    /// An upper bound of the bytes that wait in the outbox: their number when the session last
    /// looked.
    waiting_bytes: usize,
    /// Requests whose answers this poll of the task has put into the outbox.
    ended: Vec<(Begun, Ending)>,
    /// How many requests in flight the session last reported to the meter.
    metered: usize,
    notice: BoxFuture<'static, Notice>,
    /// Measures how long the client has read nothing while too many answers wait for it.
    stall: Stall,
    slot: SessionSlot,
    /// Whether the session knows that its client is gone.
    is_left: bool,
    _busy: Busy,
}

impl Session {
    /// `backlog` is the rest of the client's first batch, after the `Hello`.
    pub(crate) fn new(
        node: Arc<Node>,
        caller: Caller,
        (inbound, backlog): (Streaming<Batch>, Batch),
        outbox: Outbox,
        link: SessionLink,
        slot: SessionSlot,
        busy: Busy,
    ) -> Self {
        let notice = next_notice(&node, &caller, &link);
        let read_at = node.meter.now();
        let tracing = Tracing::new(&node.spans);
        Self {
            node,
            caller: Arc::new(caller),
            inbound,
            reading: true,
            backlog,
            read_at,
            last_id: 0,
            under_way: FuturesUnordered::new(),
            under_way_bytes: 0,
            watches: Watches::default(),
            tracing,
            parts: Parts::default(),
            link,
            outbox,
            waiting_bytes: 0,
            ended: Vec::new(),
            metered: 0,
            notice,
            stall: Stall::default(),
            slot,
            is_left: false,
            _busy: busy,
        }
    }

    /// Does all work that is possible now. Returns whether it did any.
    fn poll_round(&mut self, context: &mut Context<'_>) -> bool {
        let enough = if self.is_done() { 0 } else { REPLIES_WAITING_BYTES };
        let waiting = self.outbox.waiting(enough, context);
        self.waiting_bytes = waiting.bytes;
        if waiting.bytes <= enough || waiting.is_held_back {
            self.stall.end();
        } else if self.stall.is_too_long(waiting.taken, self.node.stall_timeout, context) {
            self.break_off(Status::resource_exhausted("answers were not read for too long"));
            return true;
        }
        if waiting.bytes > MAX_REPLIES_WAITING_BYTES {
            return false;
        }
        let mut any = self.poll_under_way(context);
        any |= self.poll_watches(context);
        any |= self.poll_messages(context);
        any
    }

    fn poll_under_way(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.waiting_bytes <= MAX_REPLIES_WAITING_BYTES
            && let Poll::Ready(Some(progress)) = Pin::new(&mut self.under_way).poll_next(context)
        {
            any = true;
            match progress {
                Progress::Finished(id, begun, outcome, bytes) => {
                    self.under_way_bytes -= bytes;
                    self.finish(id, begun, outcome);
                }
                Progress::Late(id, begun, unheard) => self.late(id, begun, unheard),
                Progress::Unheard(bytes) => self.under_way_bytes -= bytes,
            }
        }
        any
    }

    fn poll_watches(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.waiting_bytes <= REPLIES_WAITING_BYTES
            && let Poll::Ready((id, event)) = self.watches.poll_event(context)
        {
            any = true;
            let answer = match self.judge(id, event.as_ref()) {
                Ok(()) => {
                    Answer::Event(event.map_or_else(encode::watch_ended, encode::watch_event))
                }
                Err(error) => {
                    self.watches.end(id);
                    encode::failure(&error)
                }
            };
            self.tell(id, &answer);
        }
        any
    }

    /// Checks that the caller may still get events of the object that it watches.
    fn judge(&self, id: u64, event: Option<&WatchEvent>) -> Result<(), Error> {
        match (event, self.watches.object(id)) {
            (Some(_), Some(object)) => self.caller.standing.allow(Demand::Watch(object)),
            _ => Ok(()),
        }
    }

    /// Whether all answers are in the outbox, so that the client only has to read them.
    fn is_done(&self) -> bool {
        !self.reading && self.under_way.is_empty()
    }

    /// Whether another message may be begun.
    fn has_room(&self) -> bool {
        self.under_way.len() < MAX_UNDER_WAY
            && self.under_way_bytes < MAX_UNDER_WAY_BYTES
            && self.waiting_bytes <= REPLIES_WAITING_BYTES
    }

    /// Begins the messages of one batch, as far as the bounds of the session permit.
    fn poll_messages(&mut self, context: &mut Context<'_>) -> bool {
        if !self.reading || !self.has_room() {
            return false;
        }
        if self.backlog.is_empty() {
            if self.link.poll_read(context).is_pending() {
                return false;
            }
            match Pin::new(&mut self.inbound).poll_next(context) {
                Poll::Ready(Some(Ok(batch))) => {
                    self.backlog = batch;
                    self.read_at = self.node.meter.now();
                }
                Poll::Ready(Some(Err(status))) => self.break_off(status),
                Poll::Ready(None) => self.reading = false,
                Poll::Pending => return false,
            }
        }
        while self.has_room()
            && let Some(message) = self.backlog.next()
        {
            let length = message.as_ref().map_or(0, Bytes::len);
            match message.and_then(Received::decode) {
                Ok(Received::Message(
                    ClientMessage { id, body: Some(Asked::Part(part)), .. },
                    _,
                )) => {
                    self.take_part(id, &part, context);
                }
                Ok(Received::Message(message, bytes)) => {
                    let lane = self.lane(&message, length);
                    self.begin(message, bytes, lane, context);
                }
                Ok(Received::Refused(id, error)) => self.refuse(id, &error),
                Err(status) => self.break_off(status),
            }
        }
        true
    }

    /// Takes a part of a message. If the message is complete, starts the work for it.
    fn take_part(&mut self, id: u64, part: &pb::Part, context: &mut Context<'_>) {
        self.link.note_part(&self.caller, part);
        let whole = match self.parts.add(id, part) {
            Ok(Some(whole)) => whole,
            Ok(None) => return,
            Err(why) => return self.break_off(Status::invalid_argument(why)),
        };
        match Received::decode(whole) {
            Ok(Received::Message(message, bytes)) => {
                let pool = message.body.as_ref().and_then(pool_of).unwrap_or_default();
                if (!part.pool.is_empty() && pool != part.pool) || message.id != id {
                    let why = "a part with another pool or id than its message";
                    return self.break_off(Status::invalid_argument(why));
                }
                // `note_part` has already counted the bytes.
                let lane = self.lane(&message, 0);
                self.begin(message, bytes, lane, context);
            }
            Ok(Received::Refused(id, error)) => self.refuse(id, &error),
            Err(status) => self.break_off(status),
        }
    }

    fn refuse(&mut self, id: u64, error: &Error) {
        self.last_id = self.last_id.max(id);
        self.tell(id, &encode::failure(error));
    }

    /// Returns the lane of the outbox in which the answer to a message is to wait. Notes that
    /// `bytes` bytes of the message were read.
    fn lane(&mut self, message: &ClientMessage, bytes: usize) -> Lane {
        match &message.body {
            Some(asked) => self.link.lane(&self.caller, asked, bytes, &self.outbox),
            None => Lane::MAIN,
        }
    }

    fn begin(
        &mut self,
        message: ClientMessage,
        bytes: usize,
        lane: Lane,
        context: &mut Context<'_>,
    ) {
        let ClientMessage { id, timeout_micros, trace_id, span_id, body } = message;
        self.last_id = self.last_id.max(id);
        let asked = match body {
            Some(Asked::Part(_)) => {
                return self.break_off(Status::invalid_argument("a part within a part"));
            }
            Some(Asked::Hello(_)) => {
                return self.break_off(Status::invalid_argument("a second hello"));
            }
            Some(Asked::Unwatch(unwatch)) => return self.watches.end(unwatch.watch_id),
            Some(asked) => asked,
            None => return self.tell(id, &encode::failure(&message::unknown())),
        };
        if matches!(asked, Asked::Watch(_))
            && let Err(error) = self.watches.begin(id)
        {
            return self.tell(id, &encode::failure(&error));
        }
        let begun = Begun { kind: Kind::of(&asked), at: self.read_at, lane };
        let trace = self.tracing.of(Origin { trace_id, span_id });
        let mut work = self.node.begin(&self.caller, trace, asked);
        match work.future.as_mut().poll(context) {
            Poll::Ready(outcome) => self.finish(id, begun, outcome),
            Poll::Pending => {
                let timeout = (timeout_micros > 0).then(|| Duration::from_micros(timeout_micros));
                self.under_way_bytes += bytes;
                self.under_way.push(UnderWay::new(id, begun, timeout, work, bytes));
            }
        }
    }

    fn finish(&mut self, id: u64, begun: Begun, outcome: Outcome) {
        self.ended.push((begun, Ending::of(&outcome.answer)));
        self.tell_in(begun.lane, id, &outcome.answer);
        match outcome.watch {
            Some(watch) => self.watches.establish(id, watch),
            None if matches!(outcome.answer, Answer::Error(_)) => self.watches.end(id),
            None => {}
        }
    }

    /// Answers that the deadline has passed. Work that changes something goes on without the
    /// client.
    fn late(&mut self, id: u64, begun: Begun, unheard: Result<UnderWay, usize>) {
        let answer = encode::failure(&message::late());
        self.ended.push((begun, Ending::of(&answer)));
        self.tell(id, &answer);
        self.watches.end(id);
        match unheard {
            Ok(unheard) => self.under_way.push(unheard),
            Err(bytes) => self.under_way_bytes -= bytes,
        }
    }

    /// Sends an answer in the main lane. Once the client is gone, the outbox drops the answer.
    fn tell(&mut self, id: u64, answer: &Answer) {
        self.tell_in(Lane::MAIN, id, answer);
    }

    fn tell_in(&mut self, lane: Lane, id: u64, answer: &Answer) {
        let fields = message::server_fields(id);
        self.waiting_bytes = self.outbox.push_quietly(lane, id, &fields, answer);
    }

    fn take_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Stopping => self.wind_up(),
            Notice::Revoked => {
                let status = revoked(&self.caller);
                self.break_off(status);
            }
            Notice::LinkSpeed(bytes_per_second) => {
                self.tell(0, &Answer::LinkSpeed(pb::LinkSpeed { bytes_per_second }));
                self.link.told_speed = bytes_per_second;
                self.notice = next_notice(&self.node, &self.caller, &self.link);
            }
        }
    }

    /// Reports to the meter which requests were answered, and how many are in flight.
    fn meter_turn(&mut self) {
        let meter = &self.node.meter;
        if !self.ended.is_empty() {
            let now = meter.now();
            self.ended.drain(..).for_each(|(begun, ending)| meter.ended(begun, ending, now));
        }
        meter.waiting(self.under_way.len(), self.metered);
        self.metered = self.under_way.len();
    }

    /// Stops reading and sends the client a `Closing`. The session ends when all of its work has
    /// ended.
    fn wind_up(&mut self) {
        self.tell(0, &Answer::Closing(pb::Closing { last_id: self.last_id }));
        self.stop_reading();
    }

    /// Ends the session for the client at once, without the answers that still wait.
    fn break_off(&mut self, status: Status) {
        self.outbox.end(Err(status));
        self.stop_reading();
    }

    /// Notes that the client is gone, and drops work that only reads. Wakes the task, so that it
    /// polls the remaining work again. Does all this only at the first call.
    fn leave(&mut self, context: &mut Context<'_>) {
        self.stop_reading();
        if std::mem::replace(&mut self.is_left, true) {
            return;
        }
        self.slot.leave();
        let works = std::mem::take(&mut self.under_way);
        self.under_way = works.into_iter().filter(|work| !work.only_reads).collect();
        if !self.under_way.is_empty() {
            context.waker().wake_by_ref();
        }
    }

    fn stop_reading(&mut self) {
        self.reading = false;
        self.backlog = Batch::default();
        self.parts.clear();
        self.watches.clear();
    }
}

/// Waits for the next notice to the session.
fn next_notice(node: &Node, caller: &Caller, link: &SessionLink) -> BoxFuture<'static, Notice> {
    let mut phase = node.phase.subscribe();
    let ended = caller.standing.ended();
    let (speed, told) = (link.speed(), link.told_speed);
    let link_speed = async move {
        let Some(mut speed) = speed else { return std::future::pending().await };
        match speed.wait_for(|speed| *speed != told).await.map(|speed| *speed) {
            Ok(speed) => speed,
            Err(_) => std::future::pending().await,
        }
    };
    Box::pin(async move {
        tokio::select! {
            () = reached(&mut phase, Phase::Draining) => Notice::Stopping,
            () = ended => Notice::Revoked,
            speed = link_speed => Notice::LinkSpeed(speed),
        }
    })
}

fn revoked(caller: &Caller) -> Status {
    let entity = caller.entity();
    Status::permission_denied(format!("{entity} is no longer an entity of this cluster"))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.node.meter.waiting(0, self.metered);
    }
}

impl Future for Session {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while self.reading
            && let Poll::Ready(notice) = self.notice.as_mut().poll(context)
        {
            self.take_notice(notice);
        }
        let mut rounds = 0;
        while self.poll_round(context) {
            rounds += 1;
            if rounds == ROUNDS {
                context.waker().wake_by_ref();
                break;
            }
        }
        self.outbox.flush();
        if self.outbox.has_ended() {
            self.leave(context);
        }
        self.meter_turn();
        // The session stays until the client has taken its last answer. Until then the unread bytes
        // count, and the client's time to read them runs.
        if !self.is_done() || self.waiting_bytes > 0 {
            return Poll::Pending;
        }
        self.outbox.end(Ok(()));
        Poll::Ready(())
    }
}
