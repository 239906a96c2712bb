//! Lists the messages that an object has sent, for people.

use bytes::Bytes;
use nacre_object::{Error, MapEntry, MapRange, ObjectId, Op, OpResult, Request, Result, Store};

use crate::format::{DEAD, DeadLetter, Queue, message_number, stored};
use crate::limits::{MAX_DEAD_LETTERS, PAGE_MESSAGES};
use crate::message::WaitingMessage;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadMessage {
    /// The message.
    pub message: WaitingMessage,
    /// Why.
    pub reason: String,
    /// When: microseconds since 1970, UTC.
    pub at_micros: u64,
}

/// The first messages of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxPage {
    /// Those that wait, in order.
    pub waiting: Vec<WaitingMessage>,
    /// Whether more wait.
    pub more: bool,
    /// Those that were given up before and wait again, in order.
    pub resent: Vec<WaitingMessage>,
    /// Those that were given up, of which the last are kept.
    pub dead: Vec<DeadMessage>,
}

/// What waits in an object, and what was given up.
///
/// # Errors
/// `NotFound`; `Unavailable`; `Corrupt`.
pub async fn read_outbox(store: &dyn Store, object: &ObjectId) -> Result<OutboxPage> {
    let range = |prefix: &'static [u8], limit: u32| Op::MapRange {
        after: Bytes::new(),
        prefix: Bytes::from_static(prefix),
        limit,
    };
    let ops = vec![
        range(Queue::Sent.prefix(), PAGE_MESSAGES),
        range(Queue::Resent.prefix(), MAX_DEAD_LETTERS as u32),
        range(DEAD, MAX_DEAD_LETTERS as u32),
    ];
    let reply = store.submit(Request::new(object.clone(), ops)?).await?;
    let Ok([OpResult::Range(waiting), OpResult::Range(resent), OpResult::Range(dead)]) =
        <[OpResult; 3]>::try_from(reply.results)
    else {
        return Err(Error::corrupt("the reply to a read of the object's messages is malformed")
            .on(object)
            .hint("run one release of nacre on clients and nodes"));
    };
    let message = |queue: Queue, entry: MapEntry| {
        let (number, message) = queue.message(message_number(&entry.key)?, entry.value)?;
        Ok(WaitingMessage::shown(number, &message))
    };
    let all = |queue: Queue, range: MapRange| {
        range.entries.into_iter().map(|entry| message(queue, entry)).collect::<Result<_>>()
    };
    let letter = |entry: MapEntry| {
        let DeadLetter { message, reason, at_micros } = stored("a dead letter", entry.value)?;
        let message = WaitingMessage::shown(message_number(&entry.key)?, &message);
        Ok(DeadMessage { message, reason, at_micros })
    };
    Ok(OutboxPage {
        more: waiting.more,
        waiting: all(Queue::Sent, waiting)?,
        resent: all(Queue::Resent, resent)?,
        dead: dead.entries.into_iter().map(letter).collect::<Result<_>>()?,
    })
}
