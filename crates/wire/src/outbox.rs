//! The queue of outgoing messages of a session, in client and server. Senders encode messages and
//! append them to batches.
//!
//! A message is encoded once, outside the lock, and appended to the open batch. When the connection
//! is ready for more, the stream takes the whole batch. So the busier the connection, the fuller
//! the batches. Protobuf makes appending cheap: a `repeated` field is the concatenation of its
//! elements, each after its tag and length.
//!
//! While the speed of the node's link is stated, most messages wait instead in a queue for each
//! tenant, a *lane* (see [`tenant_queues`]). All other messages are in the *main lane*: the open batch and
//! the full batches before it.
//!
//! **Invariant:** messages of one lane are sent in the order in which they were pushed.

mod tenant_queues;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use nacre_object::TenantName;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::Status;

use crate::codec::MESSAGES_TAG;
use crate::limits::BATCH_BYTES;
use crate::link::Gate;
use nacre_protocol::proto::server_message;

use self::tenant_queues::TenantQueues;
pub(crate) use self::tenant_queues::{Cutting, Lane};

/// A message this long is not copied into the batch but sent beside it.
const LARGE_BYTES: usize = BATCH_BYTES / 2;

/// An encoded `ClientBatch` or `ServerBatch`, in two parts so that a large message is not copied.
#[derive(Debug, Default)]
pub(crate) struct EncodedBatch {
    pub(crate) head: Bytes,
    pub(crate) tail: Bytes,
    /// The position after the batch's last message, if the batch is from the main lane; otherwise
    /// 0.
    taken_up_to: u64,
}

impl EncodedBatch {
    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }
}

/// The body of a message, which is most of it.
pub(crate) trait Body {
    /// The length of the encoded body in bytes.
    fn length(&self) -> usize;
    /// Appends the encoded body to `buffer`.
    fn put_into(&self, buffer: &mut BytesMut);
    /// Returns the encoded body.
    fn to_bytes(&self) -> Bytes {
        let mut buffer = BytesMut::with_capacity(self.length());
        self.put_into(&mut buffer);
        buffer.freeze()
    }
}

/// A body that is encoded already.
impl Body for Bytes {
    fn length(&self) -> usize {
        self.len()
    }

    fn put_into(&self, buffer: &mut BytesMut) {
        buffer.put_slice(self);
    }

    fn to_bytes(&self) -> Bytes {
        self.clone()
    }
}

impl Body for server_message::Body {
    fn length(&self) -> usize {
        self.encoded_len()
    }

    fn put_into(&self, buffer: &mut BytesMut) {
        self.encode(buffer);
    }
}

/// The sending end of a session. Clones are handles to the same outbox.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// Closed batches, oldest first.
    full: VecDeque<EncodedBatch>,
    full_bytes: usize,
    /// The batch that is being filled.
    open: BytesMut,
    /// The position of the next message.
    pushed: u64,
    taken: u64,
    /// The position after the last message of the main lane.
    main_pushed: u64,
    /// `None` until a message first waits for the node's link.
    lanes: Option<Box<TenantQueues>>,
    /// Whether the connection is ready for more, but all waiting messages wait for the node's link.
    is_held_back: bool,
    /// How often the connection has taken a batch.
    progress: u64,
    /// The task that sends batches, while it waits for messages.
    sender: Option<Waker>,
    /// Wakes the task that pushes messages: when the outbox ends, and if `too_full`, also when the
    /// connection takes the next batch.
    owner: Option<Waker>,
    too_full: bool,
    end: Option<Result<(), Status>>,
}

/// What waits to be sent, and how much the connection has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    /// The bytes that wait to be sent.
    pub(crate) bytes: usize,
    /// How often the connection has taken a batch.
    pub(crate) taken: u64,
    /// Whether the connection is ready for more, but all waiting messages wait for the node's link.
    pub(crate) is_held_back: bool,
}

/// The position of a message among all messages that were pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutboxPosition {
    number: u64,
    lane: Lane,
}

impl Outbox {
    /// Appends a message, which consists of the encoded `fields` (small fields such as ids) and the
    /// body, and wakes the connection to send it. Returns the message's position, or `None` if the
    /// outbox has ended.
    pub(crate) fn push(&self, fields: &[u8], body: &impl Body) -> Option<OutboxPosition> {
        self.push_to(Lane::MAIN, 0, fields, body)
    }

    /// As [`Self::push`], for a message with this id, in a lane.
    pub(crate) fn push_to(
        &self,
        lane: Lane,
        id: u64,
        fields: &[u8],
        body: &impl Body,
    ) -> Option<OutboxPosition> {
        let (position, sender) = {
            let mut queue = self.lock();
            (queue.push(lane, id, fields, body)?, queue.sender.take())
        };
        if let Some(sender) = sender {
            sender.wake();
        }
        Some(position)
    }

    /// Appends a message like [`Outbox::push_to`], but possibly does not send it before the next
    /// [`Outbox::flush`]. Returns how many bytes wait to be sent then, or 0 if the outbox has
    /// ended.
    pub(crate) fn push_quietly(
        &self,
        lane: Lane,
        id: u64,
        fields: &[u8],
        body: &impl Body,
    ) -> usize {
        let mut queue = self.lock();
        queue.push(lane, id, fields, body).map_or(0, |_| queue.waiting_bytes())
    }

    /// The lane of a tenant. The lane sends a message when `gate` lets it pass. It cuts large
    /// messages into parts as `cutting` says; each part contains the name `pool`.
    pub(crate) fn lane(
        &self,
        tenant: &TenantName,
        pool: &str,
        gate: &Gate,
        cutting: Cutting,
    ) -> Lane {
        let mut queue = self.lock();
        let new = || Box::new(TenantQueues::new(gate.clone(), cutting));
        queue.lanes.get_or_insert_with(new).of(tenant, pool)
    }

    /// Wakes the connection to send everything that was pushed.
    pub(crate) fn flush(&self) {
        let mut queue = self.lock();
        if queue.is_empty() {
            return;
        }
        let sender = queue.sender.take();
        drop(queue);
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    /// Returns how many bytes wait, and how often the connection has taken a batch. The outbox
    /// wakes the task of `context` when the outbox ends. If more than `enough` bytes wait, it also
    /// wakes the task when the connection takes some of them.
    pub(crate) fn waiting(&self, enough: usize, context: &mut Context<'_>) -> Waiting {
        let mut queue = self.lock();
        let bytes = queue.waiting_bytes();
        queue.too_full = bytes > enough;
        match &mut queue.owner {
            Some(owner) => owner.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Waiting { bytes, taken: queue.progress, is_held_back: queue.is_held_back }
    }

    /// Whether a message was handed to the connection, so that the peer may have received it.
    pub(crate) fn was_taken(&self, position: OutboxPosition) -> bool {
        let queue = self.lock();
        match &queue.lanes {
            Some(lanes) if position.lane != Lane::MAIN => !lanes.waits(position.number),
            _ => position.number < queue.taken,
        }
    }

    /// Ends the outbox: it accepts no more messages. If `how` is an error, also drops the messages
    /// in it.
    pub(crate) fn end(&self, how: Result<(), Status>) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        if how.is_err() {
            queue.clear();
        }
        queue.end = Some(how);
        let wakers = [queue.sender.take(), queue.owner.take()];
        drop(queue);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether nothing can be pushed any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Returns the stream of batches for the connection. There is only one stream; when the
    /// connection drops it, the outbox ends.
    pub(crate) fn stream(&self) -> OutboxStream {
        OutboxStream { outbox: self.clone(), yielded: false }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().expect("nothing that holds this lock panics")
    }
}

impl Queue {
    fn push(
        &mut self,
        lane: Lane,
        id: u64,
        fields: &[u8],
        body: &impl Body,
    ) -> Option<OutboxPosition> {
        if self.end.is_some() {
            return None;
        }
        let position = OutboxPosition { number: self.pushed, lane };
        self.pushed += 1;
        if lane != Lane::MAIN {
            let lanes = self.lanes.as_mut()?;
            return lanes
                .push(lane, id, position.number, fields, body.to_bytes())
                .then_some(position);
        }
        self.main_pushed = self.pushed;
        let length = fields.len() + body.length();
        self.open.reserve(key_len(MESSAGES_TAG) + encoded_len_varint(length as u64) + length);
        encode_key(MESSAGES_TAG, WireType::LengthDelimited, &mut self.open);
        encode_varint(length as u64, &mut self.open);
        self.open.put_slice(fields);
        if body.length() >= LARGE_BYTES {
            self.close_open(body.to_bytes());
            return Some(position);
        }
        body.put_into(&mut self.open);
        if self.open.len() >= BATCH_BYTES {
            self.close_open(Bytes::new());
        }
        Some(position)
    }

    fn waiting_bytes(&self) -> usize {
        let in_lanes = self.lanes.as_ref().map_or(0, |lanes| lanes.bytes());
        self.full_bytes + self.open.len() + in_lanes
    }

    fn is_empty(&self) -> bool {
        self.waiting_bytes() == 0
    }

    fn close_open(&mut self, tail: Bytes) {
        let taken_up_to = self.main_pushed;
        let batch = EncodedBatch { head: self.open.split().freeze(), tail, taken_up_to };
        self.full_bytes += batch.len();
        self.full.push_back(batch);
    }

    fn take(&mut self) -> Option<EncodedBatch> {
        if self.full.is_empty() && !self.open.is_empty() {
            self.close_open(Bytes::new());
        }
        let batch = self.full.pop_front()?;
        self.full_bytes -= batch.len();
        self.taken = batch.taken_up_to;
        Some(batch)
    }

    /// The next batch. The main lane goes first.
    fn poll_take(&mut self, context: &Context<'_>) -> Poll<EncodedBatch> {
        let batch = match (self.take(), &mut self.lanes) {
            (Some(batch), _) => Poll::Ready(batch),
            (None, Some(lanes)) => lanes.poll_batch(context),
            (None, None) => Poll::Pending,
        };
        self.is_held_back = batch.is_pending();
        self.progress += u64::from(batch.is_ready());
        batch
    }

    fn clear(&mut self) {
        if let Some(lanes) = &mut self.lanes {
            lanes.clear();
        }
        self.full.clear();
        self.full_bytes = 0;
        self.open.clear();
    }
}

/// The stream from which the connection takes batches.
#[derive(Debug)]
pub(crate) struct OutboxStream {
    outbox: Outbox,
    yielded: bool,
}

impl Stream for OutboxStream {
    type Item = Result<EncodedBatch, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.outbox.lock();
        if queue.is_empty() {
            if let Some(end) = queue.end.take() {
                queue.end = Some(Ok(()));
                return Poll::Ready(end.err().map(Err));
            }
            queue.sender = Some(context.waker().clone());
            drop(queue);
            self.yielded = false;
            return Poll::Pending;
        }
        if !self.yielded {
            // The first message after a pause wakes this task, which would run before other tasks
            // have pushed their messages. Yield once, so that those messages share the batch.
            drop(queue);
            self.yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Poll::Ready(batch) = queue.poll_take(context) else {
            // A push to the main lane wakes this task, too.
            queue.sender = Some(context.waker().clone());
            let owner = if queue.too_full { queue.owner.take() } else { None };
            drop(queue);
            // The owner must not take the other end for one that reads nothing.
            owner.into_iter().for_each(Waker::wake);
            return Poll::Pending;
        };
        let owner = if queue.too_full { queue.owner.take() } else { None };
        drop(queue);
        if let Some(owner) = owner {
            owner.wake();
        }
        Poll::Ready(Some(Ok(batch)))
    }
}

impl Drop for OutboxStream {
    fn drop(&mut self) {
        self.outbox.end(Err(Status::cancelled("the connection is gone")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};
    use prost::Message;

    use nacre_protocol::proto::{ClientBatch, Hello, client_message};

    fn body(client_name: &str) -> Bytes {
        let hello = Hello { client_name: client_name.to_owned(), ..Hello::default() };
        let mut buffer = BytesMut::new();
        client_message::Body::Hello(hello).encode(&mut buffer);
        buffer.freeze()
    }

    fn take(stream: &mut OutboxStream) -> Option<EncodedBatch> {
        // Twice, as the first turn only yields.
        let ready = stream.next().now_or_never().or_else(|| stream.next().now_or_never());
        ready.flatten().map(Result::unwrap)
    }

    fn names(batch: &EncodedBatch) -> Vec<String> {
        let bytes = [&batch.head[..], &batch.tail[..]].concat();
        let messages = ClientBatch::decode(&bytes[..]).unwrap().messages;
        let name = |message: nacre_protocol::proto::ClientMessage| match message.body {
            Some(client_message::Body::Hello(hello)) => hello.client_name,
            other => panic!("{other:?}"),
        };
        messages.into_iter().map(name).collect()
    }

    #[test]
    fn messages_pushed_together_are_sent_in_one_batch_in_order() {
        let outbox = Outbox::default();
        let mut stream = outbox.stream();
        assert!(take(&mut stream).is_none());
        let positions = ["a", "b"].map(|name| outbox.push(&[], &body(name)).unwrap());
        assert!(!outbox.was_taken(positions[0]));
        assert_eq!(names(&take(&mut stream).unwrap()), ["a", "b"]);
        assert!(outbox.was_taken(positions[1]));
        assert!(take(&mut stream).is_none());
    }

    #[test]
    fn a_large_message_closes_its_batch_and_is_not_copied() {
        let outbox = Outbox::default();
        let mut stream = outbox.stream();
        let large = "x".repeat(LARGE_BYTES);
        let bodies = [body("a"), body(&large), body("b")];
        bodies.iter().for_each(|body| assert!(outbox.push(&[], body).is_some()));
        let batch = take(&mut stream).unwrap();
        assert_eq!(batch.tail.as_ptr(), bodies[1].as_ptr());
        assert_eq!(names(&batch), ["a", &large]);
        assert_eq!(names(&take(&mut stream).unwrap()), ["b"]);
    }

    #[test]
    fn a_batch_is_closed_when_it_is_long_enough() {
        let outbox = Outbox::default();
        let mut stream = outbox.stream();
        let name = "x".repeat(1000);
        let pushed = 3 * BATCH_BYTES / name.len();
        (0..pushed).for_each(|_| assert!(outbox.push(&[], &body(&name)).is_some()));
        let batches: Vec<_> = std::iter::from_fn(|| take(&mut stream)).collect();
        assert!(batches.iter().all(|batch| batch.len() < BATCH_BYTES + 1100));
        assert_eq!(batches.iter().map(|batch| names(batch).len()).sum::<usize>(), pushed);
    }

    #[test]
    fn an_ended_outbox_accepts_nothing_and_still_sends_what_it_has() {
        let outbox = Outbox::default();
        let mut stream = outbox.stream();
        outbox.push(&[], &body("a")).unwrap();
        outbox.end(Ok(()));
        assert!(outbox.push(&[], &body("b")).is_none());
        assert_eq!(names(&take(&mut stream).unwrap()), ["a"]);
        assert!(matches!(stream.next().now_or_never(), Some(None)));
    }

    #[test]
    fn an_outbox_whose_stream_is_dropped_ends() {
        let outbox = Outbox::default();
        drop(outbox.stream());
        assert!(outbox.has_ended());
    }
}
