//! The lanes of an outbox. While the speed of the node's link is set, the messages of each tenant
//! wait in a queue of their own, a *lane*.
//!
//! The [`Gate`] decides which lane may send next. A small message waits at the gate as a whole. A
//! large message is cut into parts, and each part waits separately. So a message of another tenant
//! can be sent between two parts.
//!
//! **Invariant:** a lane sends its messages in the order in which they were pushed. It sends all
//! parts of a message before it begins the next message.

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

/// The field numbers of the protocol's message `Part`.
const BYTES_TAG: u32 = 1;
const IS_LAST_TAG: u32 = 2;
const POOL_TAG: u32 = 3;

/// The lane in which a message waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane(u8);

impl Lane {
    /// The lane for messages that do not wait for the link. All tenants share it.
    pub(crate) const MAIN: Self = Self(0);

    fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// Whether large messages are cut into parts for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cutting {
    /// Large messages are cut into parts. A part is in the field of a message with this number.
    Parts { field: u32 },
    /// The peer takes only whole messages.
    Whole,
}

/// The queues of one outbox: a queue for each tenant, called its *lane*.
#[derive(Debug)]
pub(super) struct TenantQueues {
    gate: Gate,
    cutting: Cutting,
    lanes: Vec<LaneQueue>,
    /// The index of the lane that is asked first for the next batch.
    next: usize,
    bytes: usize,
    /// The positions of messages that are not completely sent.
    positions: BTreeSet<u64>,
}

#[derive(Debug)]
struct LaneQueue {
    tenant: TenantName,
    /// The pool that the parts of the lane's messages name.
    pool: Box<str>,
    messages: VecDeque<Message>,
    /// What waits at the gate: the small messages, and the parts of the large ones.
    pieces: VecDeque<Piece>,
}

/// A whole message or a part of one, with its entry at the gate.
#[derive(Debug)]
struct Piece {
    ticket: Ticket,
    extent: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// A message of this many bytes.
    Whole(usize),
    /// A part of this many bytes.
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

impl TenantQueues {
    pub(super) fn new(gate: Gate, cutting: Cutting) -> Self {
        let (lanes, positions) = (vec![], BTreeSet::new());
        Self { gate, cutting, lanes, next: 0, bytes: 0, positions }
    }

    /// Returns the lane of a tenant whose parts name `pool`, and makes it if there is none. Once
    /// there are [`MAX_SESSION_LANES`] lanes, further tenants share the last lane, whose parts name
    /// no pool.
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

    /// Appends a message. Returns false if there is no such lane.
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
        lane.push(message, &self.gate, self.cutting);
        true
    }

    /// The number of bytes that wait to be sent.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a message is not completely sent.
    pub(super) fn waits(&self, position: u64) -> bool {
        self.positions.contains(&position)
    }

    /// Drops all messages. [`Self::waits`] still counts them as not sent.
    pub(super) fn clear(&mut self) {
        for lane in &mut self.lanes {
            lane.messages.clear();
            lane.pieces.clear();
        }
        self.bytes = 0;
    }

    /// Ready with the next batch once the gate lets a message or part pass. If all must wait, the
    /// gate later wakes the task of `context`.
    pub(super) fn poll_batch(&mut self, context: &Context<'_>) -> Poll<EncodedBatch> {
        let count = self.lanes.len();
        for at in (0..count).map(|step| (self.next + step) % count) {
            if let Some(first) = self.lanes[at].take_turn(context) {
                self.next = at + 1;
                return Poll::Ready(match first {
                    Extent::Part(bytes) => self.part(at, bytes),
                    Extent::Whole(bytes) => {
                        let more = self.lanes[at].take_more(bytes, context);
                        self.whole(at, 1 + more)
                    }
                });
            }
        }
        Poll::Pending
    }

    fn part(&mut self, at: usize, bytes: usize) -> EncodedBatch {
        // Messages are cut only for a peer that takes parts.
        let Cutting::Parts { field } = self.cutting else { return self.whole(at, 1) };
        let LaneQueue { messages, pool, .. } = &mut self.lanes[at];
        let Some(message) = messages.front_mut() else { return EncodedBatch::default() };
        self.bytes -= bytes;
        let batch = part(message, bytes, field, pool);
        if message.left() == 0 {
            self.positions.remove(&message.position);
            messages.pop_front();
        }
        batch
    }

    fn whole(&mut self, at: usize, count: usize) -> EncodedBatch {
        let (mut head, mut tail) = (BytesMut::new(), Bytes::new());
        for message in self.lanes[at].messages.drain(..count) {
            self.bytes -= message.left();
            self.positions.remove(&message.position);
            encode_key(MESSAGES_TAG, WireType::LengthDelimited, &mut head);
            encode_varint(message.left() as u64, &mut head);
            head.put_slice(&message.fields);
            match count {
                1 => tail = message.body,
                _ => head.put_slice(&message.body),
            }
        }
        EncodedBatch { head: head.freeze(), tail, taken_up_to: 0 }
    }
}

impl LaneQueue {
    fn new(tenant: TenantName, pool: &str) -> Self {
        let (messages, pieces) = (VecDeque::new(), VecDeque::new());
        Self { tenant, pool: pool.into(), messages, pieces }
    }

    fn push(&mut self, message: Message, gate: &Gate, cutting: Cutting) {
        let length = message.left();
        self.messages.push_back(message);
        if length <= PART_BYTES || cutting == Cutting::Whole {
            let ticket = gate.enter(&self.tenant, 1, length);
            self.pieces.push_back(Piece { ticket, extent: Extent::Whole(length) });
            return;
        }
        for from in (0..length).step_by(PART_BYTES) {
            let bytes = PART_BYTES.min(length - from);
            let ticket = gate.enter(&self.tenant, usize::from(from == 0), bytes);
            self.pieces.push_back(Piece { ticket, extent: Extent::Part(bytes) });
        }
    }

    /// Takes the first message or part, if the gate lets it pass. If it must wait, the gate later
    /// wakes the task of `context`.
    fn take_turn(&mut self, context: &Context<'_>) -> Option<Extent> {
        let first = self.pieces.front_mut()?;
        match first.ticket.poll_turn(context) {
            Poll::Ready(()) => self.pieces.pop_front().map(|piece| piece.extent),
            Poll::Pending => None,
        }
    }

    /// Takes whole messages from the front of the lane while the gate lets them pass and the batch
    /// has at most [`PART_BYTES`]. `bytes` is the length of the messages that the batch has
    /// already. Returns how many messages it took.
    fn take_more(&mut self, mut bytes: usize, context: &Context<'_>) -> usize {
        let mut count = 0;
        while let Some(Piece { extent: Extent::Whole(length), .. }) = self.pieces.front()
            && bytes + length <= PART_BYTES
            && let Some(Extent::Whole(length)) = self.take_turn(context)
        {
            bytes += length;
            count += 1;
        }
        count
    }
}

/// Encodes the next part of a message, of `bytes` bytes, as a batch. Does not copy the body.
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
    let length = id.len() + key_len(field) + encoded_len_varint(part_bytes as u64) + part_bytes;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::task::Waker;

    use nacre_clock::ManualClock;
    use nacre_protocol::proto::{ServerBatch, ServerMessage, server_message};
    use prost::Message as _;

    use super::*;
    use crate::message::server_fields;
    use crate::parts::Parts;

    const FIELD: u32 = 10;

    fn answer(length: usize) -> server_message::Body {
        server_message::Body::Answer(nacre_protocol::proto::Answer {
            output: vec![b'x'; length].into(),
        })
    }

    fn push(lanes: &mut TenantQueues, tenant: &str, id: u64, length: usize) {
        use super::super::Body;
        let lane = lanes.of(&TenantName::new(tenant).unwrap(), "");
        assert!(lanes.push(lane, id, id, &server_fields(id), answer(length).to_bytes()));
    }

    /// The messages of the next batch.
    fn next(lanes: &mut TenantQueues) -> Option<Vec<ServerMessage>> {
        match lanes.poll_batch(&Context::from_waker(Waker::noop())) {
            Poll::Ready(batch) => {
                let bytes = [&batch.head[..], &batch.tail[..]].concat();
                Some(ServerBatch::decode(&bytes[..]).unwrap().messages)
            }
            Poll::Pending => None,
        }
    }

    /// All messages, in the order in which the last byte of each is sent.
    fn complete(lanes: &mut TenantQueues) -> Vec<ServerMessage> {
        let (mut parts, mut whole) = (Parts::default(), vec![]);
        while let Some(messages) = next(lanes) {
            for message in messages {
                match &message.body {
                    Some(server_message::Body::Part(part)) => {
                        let added = parts.add(message.id, part).unwrap();
                        whole.extend(added.map(|bytes| ServerMessage::decode(bytes).unwrap()));
                    }
                    _ => whole.push(message),
                }
            }
        }
        whole
    }

    /// Queues whose gate lets every message pass at once.
    fn open(cutting: Cutting) -> TenantQueues {
        TenantQueues::new(Gate::new(Arc::new(ManualClock::default())), cutting)
    }

    #[test]
    fn a_small_message_overtakes_a_large_one_of_another_tenant() {
        let mut lanes = open(Cutting::Parts { field: FIELD });
        push(&mut lanes, "bulk", 1, 10 * PART_BYTES);
        push(&mut lanes, "bulk", 2, 10);
        push(&mut lanes, "gold", 3, 10);
        let complete = complete(&mut lanes);
        assert_eq!(complete.iter().map(|message| message.id).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(complete[1].body, Some(answer(10 * PART_BYTES)));
        assert_eq!(lanes.bytes(), 0);
        assert!((1..=3).all(|position| !lanes.waits(position)));
    }

    #[test]
    fn messages_about_as_long_as_a_part_arrive_whole() {
        for length in (PART_BYTES - 20..PART_BYTES + 20).chain([3 * PART_BYTES - 10]) {
            let mut lanes = open(Cutting::Parts { field: FIELD });
            push(&mut lanes, "bulk", u64::MAX, length);
            let complete = complete(&mut lanes);
            assert_eq!(complete.len(), 1);
            assert_eq!((complete[0].id, &complete[0].body), (u64::MAX, &Some(answer(length))));
        }
    }

    #[test]
    fn large_messages_stay_whole_for_a_peer_that_takes_no_parts() {
        let mut lanes = open(Cutting::Whole);
        push(&mut lanes, "bulk", 1, 3 * PART_BYTES);
        let messages = next(&mut lanes).unwrap();
        assert_eq!(messages[0].body, Some(answer(3 * PART_BYTES)));
    }

    #[test]
    fn a_message_counts_as_waiting_until_its_last_part_is_sent() {
        let mut lanes = open(Cutting::Parts { field: FIELD });
        push(&mut lanes, "bulk", 7, 2 * PART_BYTES);
        let mut batches = 0;
        while lanes.waits(7) {
            next(&mut lanes).unwrap();
            batches += 1;
        }
        assert_eq!(batches, 3);
    }

    #[tokio::test]
    async fn a_message_is_sent_only_once_the_gate_lets_it_pass() {
        let clock = Arc::new(ManualClock::default());
        let gate = Gate::new(clock.clone());
        gate.set(Some((nacre_qos::Link::new(1e3).unwrap(), BTreeMap::new())));
        let mut lanes = TenantQueues::new(gate, Cutting::Parts { field: FIELD });
        push(&mut lanes, "bulk", 1, 10);
        push(&mut lanes, "bulk", 2, 10);
        assert_eq!(next(&mut lanes).unwrap()[0].id, 1);
        assert_eq!(next(&mut lanes), None);
        lanes.clear();
        assert_eq!(lanes.bytes(), 0);
        assert!(lanes.waits(2), "it was not sent");
    }

    #[test]
    fn tenants_beyond_the_bound_share_the_last_lane() {
        let mut lanes = open(Cutting::Whole);
        for number in 0..2 * MAX_SESSION_LANES {
            push(&mut lanes, &format!("t{number}"), number as u64, 1);
        }
        assert_eq!(lanes.lanes.len(), MAX_SESSION_LANES);
        assert_eq!(complete(&mut lanes).len(), 2 * MAX_SESSION_LANES);
    }
}
