//! What lies in objects about messages, and what the class `channels` is asked.
//!
//! | object | key | value |
//! |---|---|---|
//! | sender | `>` and a number, fourteen hexadecimal digits | a message that waits: `brados/src/emit/channels.lua` |
//! | | `!` and its number | [`DeadLetter`]: a message that was given up |
//! | | `@outbox` | [`Outbox`]: which incarnation of the object sends |
//! | receiver | `@inbox.` and the sender, `POOL/OBJECT` | [`Received`]: the last message of that sender |
//! | | `@inbox` | [`Inbox`]: how many senders are remembered |
//! | ledger, `channels/NN` of the system pool | object, entity, process, with zero bytes between | [`Mark`] |
//!
//! Values are protocol-buffer messages: fields may be added, never renumbered.

use bytes::Bytes;
use nacre_object::{Error, ObjectId, Result};
use prost::Message;

/// What keys of waiting messages begin with.
pub(crate) const WAITING: &[u8] = b">";
/// What keys of dead letters begin with.
pub(crate) const DEAD: &[u8] = b"!";
/// What keys of messages for the application begin with.
pub(crate) const FOR_APPLICATION: &[u8] = b"~";
pub(crate) const OUTBOX: &[u8] = b"@outbox";
pub(crate) const INBOX: &[u8] = b"@inbox";

/// Digits of a message's number in a key.
const NUMBER_DIGITS: usize = 14;

/// The key of a message.
pub(crate) fn message_key(prefix: &[u8], number: u64) -> Vec<u8> {
    [prefix, format!("{number:0width$x}", width = NUMBER_DIGITS).as_bytes()].concat()
}

/// The number in a message's key.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn message_number(key: &[u8]) -> Result<u64> {
    let digits = key.get(1..).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| Error::corrupt("a message's key has no number"))
}

/// The key of what a receiver knows of a sender.
pub(crate) fn sender_key(sender: &str) -> Vec<u8> {
    [INBOX, b".", sender.as_bytes()].concat()
}

/// Where marks of an object begin in its ledger.
pub(crate) fn marks_of(object: &ObjectId) -> Vec<u8> {
    format!("{object}\0").into_bytes()
}

/// Which incarnation of an object sends. It is the object's version from when its first message was about
/// to be delivered, so an object that is made again after it was removed has a greater one.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Outbox {
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
}

/// The last message of a sender.
#[derive(Clone, Copy, PartialEq, PartialOrd, Message)]
pub(crate) struct Received {
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    #[prost(uint64, tag = "2")]
    pub number: u64,
}

/// What a receiver remembers.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Inbox {
    #[prost(uint64, tag = "1")]
    pub senders: u64,
}

/// A message that was given up.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeadLetter {
    /// The message as it waited.
    #[prost(bytes = "bytes", tag = "1")]
    pub message: Bytes,
    /// Why.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// When: microseconds since 1970, UTC.
    #[prost(uint64, tag = "3")]
    pub at_micros: u64,
}

/// That an object may have messages which an entity's requests sent, as the process knows that marked it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Mark {
    /// When it was made, by the clock of its maker: microseconds since 1970, UTC.
    #[prost(uint64, tag = "1")]
    pub at_micros: u64,
    /// Tells it from the marks of the same key before and after it.
    #[prost(uint64, tag = "2")]
    pub nonce: u64,
}

/// What became of messages, for `settle`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Settlement {
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// Those that are done.
    #[prost(uint64, repeated, tag = "2")]
    pub delivered: Vec<u64>,
    /// Those that are given up.
    #[prost(message, repeated, tag = "3")]
    pub dead: Vec<GivenUp>,
}

/// A message that is given up, and why.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GivenUp {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(string, tag = "2")]
    pub reason: String,
}

/// A message on its way, for `accept`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Accept {
    /// The object that sent it.
    #[prost(string, tag = "1")]
    pub sender: String,
    #[prost(message, required, tag = "2")]
    pub message: Received,
    /// Whose request sent it: who calls the method.
    #[prost(string, tag = "3")]
    pub source: String,
}

/// Which removal is due, for `remove`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Removal {
    #[prost(message, required, tag = "1")]
    pub message: Received,
}

/// A mark that is to go, for `unmark`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unmark {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// It goes only if it is still this one.
    #[prost(message, required, tag = "2")]
    pub mark: Mark,
}

/// Reads what is stored.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn stored<Stored: Message + Default>(what: &str, bytes: Bytes) -> Result<Stored> {
    Stored::decode(bytes).map_err(|cause| Error::corrupt(format!("{what} makes no sense: {cause}")))
}
