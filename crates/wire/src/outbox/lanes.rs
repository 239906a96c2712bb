//! The lanes of an outbox: while the speed of the link is stated, the messages of each tenant wait
//! in a lane of their own.
//!
//! Each lane that has messages enters the gate of the link, with some small messages or with one
//! part of a large message. When it is its turn, these bytes are sent. So a large message keeps
//! others waiting for one part at most.
//!
//! **Invariant:** a lane sends its messages in the order they were pushed, one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use nacre_object::TenantName;
use prost::encoding::{WireType, bool, encode_key, encode_varint, encoded_len_varint, key_len};

use super::EncodedBatch;
use crate::codec::MESSAGES_TAG;
use crate::limits::{MAX_SESSION_LANES, PART_BYTES};
use crate::link::{Gate, Ticket};
use crate::message::Fields;

/// Fields of `Part`.
const BYTES_TAG: u32 = 1;
const IS_LAST_TAG: u32 = 2;
const POOL_TAG: u32 = 3;

/// Where a message waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane(u8);

impl Lane {
    /// The batches of all tenants. They do not wait for the link.
    pub(crate) const MAIN: Self = Self(0);

    fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// Whether the other end takes large messages in parts, and in which field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cutting {
    /// It does.
    Parts { field: u32 },
    /// It takes only whole messages.
    Whole,
}

/// The lanes of one outbox.
#[derive(Debug)]
pub(super) struct Lanes {
    gate: Gate,
    cutting: Cutting,
    lanes: Vec<LaneQueue>,
    /// The lane that is asked first.
    next: usize,
    bytes: usize,
    /// The positions of messages that were not sent completely.
    positions: BTreeSet<u64>,
}

#[derive(Debug)]
struct LaneQueue {
    tenant: TenantName,
    /// What parts of its messages name.
    pool: Box<str>,
    messages: VecDeque<Message>,
    /// What waits at the gate.
    entry: Option<(Ticket, Entry)>,
}

/// What a lane sends next.
#[derive(Debug, Clone, Copy)]
enum Entry {
    /// So many messages.
    Whole(usize),
    /// So many bytes of the first message.
    Part(usize),
}

#[derive(Debug)]
struct Message {
    id: u64,
    fields: Bytes,
    body: Bytes,
    sent: usize,
    position: u64,
}

impl Message {
    fn left(&self) -> usize {
        self.fields.len() + self.body.len() - self.sent
    }
}

impl Lanes {
    pub(super) fn new(gate: Gate, cutting: Cutting) -> Self {
        let (lanes, positions) = (vec![], BTreeSet::new());
        Self { gate, cutting, lanes, next: 0, bytes: 0, positions }
    }

    /// The lane of a tenant, whose parts name this pool. Tenants beyond the bound share the last
    /// lane, whose parts name none.
    pub(super) fn of(&mut self, tenant: &TenantName, pool: &str) -> Lane {
        let is_own = |lane: &LaneQueue| lane.tenant == *tenant && *lane.pool == *pool;
        let at = self.lanes.iter().position(is_own).unwrap_or_else(|| {
            match self.lanes.len() {
                MAX_SESSION_LANES => {}
                count if count + 1 == MAX_SESSION_LANES => {
                    self.lanes.push(LaneQueue::new(TenantName::standard(), ""));
                }
                _ => self.lanes.push(LaneQueue::new(tenant.clone(), pool)),
            }
            self.lanes.len() - 1
        });
        Lane(at as u8 + 1)
    }

    /// Appends a message; whether there is such a lane.
    pub(super) fn push(
        &mut self,
        lane: Lane,
        id: u64,
        position: u64,
        fields: &[u8],
        body: Bytes,
    ) -> bool {
        let Some(lane) = lane.index().and_then(|at| self.lanes.get_mut(at)) else { return false };
        let message =
            Message { id, fields: Bytes::copy_from_slice(fields), body, sent: 0, position };
        self.bytes += message.left();
        self.positions.insert(position);
        lane.messages.push_back(message);
        true
    }

    /// The bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a message was not sent completely.
    pub(super) fn waits(&self, position: u64) -> bool {
        self.positions.contains(&position)
    }

    /// Drops all messages. None of them was sent.
    pub(super) fn clear(&mut self) {
        for lane in &mut self.lanes {
            lane.messages.clear();
            lane.entry = None;
        }
        self.bytes = 0;
    }

    /// The next batch, if it is the turn of a lane. If not, the task of `context` is woken then.
    pub(super) fn poll_batch(&mut self, context: &Context<'_>) -> Poll<EncodedBatch> {
        let count = self.lanes.len();
        for at in (0..count).map(|step| (self.next + step) % count) {
            let lane = &mut self.lanes[at];
            if let Poll::Ready(entry) = lane.poll_turn(&self.gate, self.cutting, context) {
                self.next = at + 1;
                return Poll::Ready(self.batch(at, entry));
            }
        }
        Poll::Pending
    }

    fn batch(&mut self, at: usize, entry: Entry) -> EncodedBatch {
        let LaneQueue { messages, pool, .. } = &mut self.lanes[at];
        let batch = match (entry, self.cutting) {
            (Entry::Part(bytes), Cutting::Parts { field }) => {
                let Some(message) = messages.front_mut() else { return EncodedBatch::default() };
                self.bytes -= bytes;
                let batch = part(message, bytes, field, pool);
                if message.left() == 0 {
                    self.positions.remove(&message.position);
                    messages.pop_front();
                }
                return batch;
            }
            (Entry::Part(_), Cutting::Whole) => 1,
            (Entry::Whole(count), _) => count,
        };
        let (mut head, mut tail) = (BytesMut::new(), Bytes::new());
        for message in messages.drain(..batch) {
            self.bytes -= message.left();
            self.positions.remove(&message.position);
            encode_key(MESSAGES_TAG, WireType::LengthDelimited, &mut head);
            encode_varint(message.left() as u64, &mut head);
            head.put_slice(&message.fields);
            match batch {
                1 => tail = message.body,
                _ => head.put_slice(&message.body),
            }
        }
        EncodedBatch { head: head.freeze(), tail, taken_up_to: 0 }
    }
}

impl LaneQueue {
    fn new(tenant: TenantName, pool: &str) -> Self {
        Self { tenant, pool: pool.into(), messages: VecDeque::new(), entry: None }
    }

    fn poll_turn(
        &mut self,
        gate: &Gate,
        cutting: Cutting,
        context: &Context<'_>,
    ) -> Poll<Entry> {
        if self.entry.is_none() {
            let Some(entry) = self.next_entry(cutting) else { return Poll::Pending };
            let (messages, bytes) = match entry {
                Entry::Part(bytes) => (usize::from(self.messages[0].sent == 0), bytes),
                Entry::Whole(count) => {
                    let bytes = self.messages.iter().take(count).map(Message::left).sum();
                    (count, bytes)
                }
            };
            self.entry = Some((gate.enter(&self.tenant, messages, bytes), entry));
        }
        let Some((ticket, entry)) = &mut self.entry else { return Poll::Pending };
        let entry = *entry;
        std::task::ready!(ticket.poll_turn(context));
        self.entry = None;
        Poll::Ready(entry)
    }

    /// As many messages as are together as long as a part, or a part of the first.
    fn next_entry(&self, cutting: Cutting) -> Option<Entry> {
        let first = self.messages.front()?;
        let is_large = first.left() > PART_BYTES || first.sent > 0;
        if is_large && cutting != Cutting::Whole {
            return Some(Entry::Part(first.left().min(PART_BYTES)));
        }
        let mut bytes = 0;
        let fit = self.messages.iter().take_while(|message| {
            bytes += message.left();
            bytes <= PART_BYTES
        });
        Some(Entry::Whole(fit.count().max(1)))
    }
}

/// The next part of a message, as a batch. The body is not copied.
fn part(message: &mut Message, bytes: usize, field: u32, pool: &str) -> EncodedBatch {
    let is_last = bytes == message.left();
    let fields_left = message.fields.len().saturating_sub(message.sent).min(bytes);
    let from = message.sent + fields_left - message.fields.len();
    let (start, end) = (message.sent, message.sent + fields_left);
    let of_body = bytes - fields_left;

    let mut inner = BytesMut::new();
    if !pool.is_empty() {
        encode_key(POOL_TAG, WireType::LengthDelimited, &mut inner);
        encode_varint(pool.len() as u64, &mut inner);
        inner.put_slice(pool.as_bytes());
    }
    bool::encode(IS_LAST_TAG, &is_last, &mut inner);
    encode_key(BYTES_TAG, WireType::LengthDelimited, &mut inner);
    encode_varint(bytes as u64, &mut inner);
    if fields_left > 0 {
        inner.put_slice(&message.fields[start..end]);
    }
    let part_bytes = inner.len() + of_body;
    let id = Fields::of_id(message.id);
    let length =
        id.len() + key_len(field) + encoded_len_varint(part_bytes as u64) + part_bytes;
    let mut head = BytesMut::new();
    encode_key(MESSAGES_TAG, WireType::LengthDelimited, &mut head);
    encode_varint(length as u64, &mut head);
    head.put_slice(&id);
    encode_key(field, WireType::LengthDelimited, &mut head);
    encode_varint(part_bytes as u64, &mut head);
    head.put_slice(&inner);

    let tail = message.body.slice(from..from + of_body);
    message.sent += bytes;
    EncodedBatch { head: head.freeze(), tail, taken_up_to: 0 }
}
