//! What objects store about messages, and the inputs and outputs of the class `channels`.
//!
//! The *incarnation* of a sender tells it from an earlier object of the same name. A *chain* is a
//! message, the messages that its delivery causes, and so on. A *ledger* is an object with *marks*:
//! a mark says that another object may have messages.
//!
//! | object | key | value |
//! |---|---|---|
//! | sender | `>` and a number, fourteen hexadecimal digits | a message that waits: `brados/src/emit/channels.lua` |
//! | | `!` and the number of the message, also in fourteen digits | [`DeadLetter`]: a message that was given up |
//! | | `^` and a new number, also in fourteen digits | [`ResentMessage`]: a dead letter that waits to be delivered again |
//! | | `@outbox` | [`Outbox`]: the object's incarnation, and the number of the last dead letter that was sent again |
//! | | `@chains` | [`Chains`]: which waiting messages continue a chain, and how many messages come before them in it |
//! | receiver | `@inbox.` and the sender, `POOL/OBJECT` | [`Received`]: the last message of that sender |
//! | | `@inbox.`, the sender, a zero byte and `resent` | [`Received`]: the last dead letter that this sender sent again |
//! | | `@inbox` | [`Inbox`]: the number of `@inbox.` keys, and how many times some were removed |
//! | ledger, `channels/NN` of the system pool | object, entity, process, with zero bytes between | [`OutboxMark`] |
//!
//! Values are protocol-buffer messages: fields may be added, never renumbered.

use bytes::Bytes;
use nacre_object::{Error, ObjectId, Result};
use prost::Message;

use crate::limits::MAX_LINKS;

/// What keys of dead letters begin with.
pub(crate) const DEAD: &[u8] = b"!";
/// What keys of messages for the application begin with.
pub(crate) const FOR_APPLICATION: &[u8] = b"~";
pub(crate) const OUTBOX: &[u8] = b"@outbox";
pub(crate) const CHAINS: &[u8] = b"@chains";
pub(crate) const INBOX: &[u8] = b"@inbox";
/// What keys of notes of senders begin with.
pub(crate) const NOTES: &[u8] = b"@inbox.";
/// Separates a sender's name from the queue that a note is about. No object's name contains it.
const OF_QUEUE: char = '\0';
const RESENT: &str = "resent";

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
    [NOTES, sender.as_bytes()].concat()
}

/// The sender that a receiver's note is about.
pub(crate) fn note_sender(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(NOTES)?).ok()
}

/// A queue of messages that wait in an object. They are numbered, and delivered in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// As requests sent them.
    Sent,
    /// Dead letters that are sent again.
    Resent,
}

impl Queue {
    /// What their keys begin with.
    pub fn prefix(self) -> &'static [u8] {
        match self {
            Self::Sent => b">",
            Self::Resent => b"^",
        }
    }

    /// The key of one of them.
    pub fn key(self, number: u64) -> Vec<u8> {
        message_key(self.prefix(), number)
    }

    /// The sender's name in a receiver's notes.
    pub fn sender(self, object: &ObjectId) -> String {
        match self {
            Self::Sent => object.to_string(),
            Self::Resent => format!("{object}{OF_QUEUE}{RESENT}"),
        }
    }

    /// The object and the queue that a sender's name stands for.
    pub fn of_sender(sender: &str) -> Option<(ObjectId, Self)> {
        match sender.split_once(OF_QUEUE) {
            None => Some((sender.parse().ok()?, Self::Sent)),
            Some((object, RESENT)) => Some((object.parse().ok()?, Self::Resent)),
            Some(_) => None,
        }
    }

    /// Decodes a stored message of this queue. Returns the message, and the number with which it
    /// was sent first.
    ///
    /// # Errors
    /// `Corrupt` if the stored message cannot be decoded.
    pub fn message(self, number: u64, value: Bytes) -> Result<(u64, Bytes)> {
        match self {
            Self::Sent => Ok((number, value)),
            Self::Resent => {
                let resent: ResentMessage = stored("a message sent again", value)?;
                Ok((resent.number, resent.message))
            }
        }
    }
}

/// Where marks of an object begin in its ledger.
pub(crate) fn marks_of(object: &ObjectId) -> Vec<u8> {
    format!("{object}\0").into_bytes()
}

/// The incarnation of an object that sends messages. If an object is removed and made again, its
/// incarnation is greater, so receivers do not confuse the two. The incarnation is the version that
/// the object had just before the delivery of its first message.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Outbox {
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// The number of the last dead letter that was sent again.
    #[prost(uint64, tag = "2")]
    pub resent: u64,
}

/// The waiting messages of an object that continue a chain. A message continues a chain if another
/// message called the method that sent it. Every other message begins a chain.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Chains {
    /// A message up to this number continues a chain if one of the `links` contains the message,
    /// and otherwise begins one. For later messages this is not known yet.
    #[prost(uint64, tag = "1")]
    pub known_to: u64,
    /// In the order of their numbers.
    #[prost(message, repeated, tag = "2")]
    pub links: Vec<Link>,
}

/// Messages that one delivered call sent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Link {
    /// They have the numbers after this one,
    #[prost(uint64, tag = "1")]
    pub after: u64,
    /// up to this one.
    #[prost(uint64, tag = "2")]
    pub last: u64,
    /// Messages in the chain before each of them.
    #[prost(uint32, tag = "3")]
    pub depth: u32,
    /// What the call called, as `CLASS.METHOD`.
    #[prost(string, tag = "4")]
    pub called: String,
}

impl Chains {
    /// The link that contains this message, or `None` if the message begins a chain.
    pub fn link_of(&self, number: u64) -> Option<&Link> {
        self.links.iter().find(|link| link.after < number && number <= link.last)
    }

    /// Adds the messages that a call sent, up to number `last`. Messages below `first_waiting` are
    /// delivered.
    pub fn add(&mut self, last: u64, depth: u32, called: String, first_waiting: u64) {
        self.links.retain(|link| link.last >= first_waiting);
        self.links.push(Link { after: self.known_to, last, depth, called });
        self.known_to = last;
        if self.links.len() > MAX_LINKS {
            let first = self.links.remove(0);
            let next = &mut self.links[0];
            next.after = first.after;
            // The longer of two chains counts: at worst a chain ends earlier.
            if first.depth > next.depth {
                (next.depth, next.called) = (first.depth, first.called);
            }
        }
    }
}

/// The last message of a sender.
///
/// **Invariant:** of two such values, the later one is greater.
#[derive(Clone, Copy, PartialEq, PartialOrd, Message)]
pub(crate) struct Received {
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// Whether the receiver refused it for good: it was not carried out, and never will be.
    #[prost(bool, tag = "3")]
    pub is_refused: bool,
}

/// What a receiver remembers.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Inbox {
    #[prost(uint64, tag = "1")]
    pub senders: u64,
    /// How many times the receiver has forgotten senders.
    #[prost(uint64, tag = "2")]
    pub generation: u64,
}

/// A receiver's note about a sender.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Note {
    #[prost(string, tag = "1")]
    pub sender: String,
    #[prost(message, required, tag = "2")]
    pub received: Received,
}

/// Senders that need not be remembered, for `forget`. A note that has changed since stays.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Forget {
    #[prost(message, repeated, tag = "1")]
    pub notes: Vec<Note>,
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

/// A dead letter that is sent again.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResentMessage {
    /// The number it was sent with.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The message as it waited.
    #[prost(bytes = "bytes", tag = "2")]
    pub message: Bytes,
}

/// Which dead letters are sent again, for `resend`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resend {
    #[prost(uint64, repeated, tag = "1")]
    pub numbers: Vec<u64>,
    /// The entity on whose behalf all of them were sent.
    #[prost(string, tag = "2")]
    pub source: String,
}

/// A mark in a ledger: the object may have messages that requests of an entity sent.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct OutboxMark {
    /// When it was made, by the clock of its maker: microseconds since 1970, UTC.
    #[prost(uint64, tag = "1")]
    pub at_micros: u64,
    /// A random number, so that no two marks are equal.
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
    /// Whether they are of those that were sent again, [`Queue::Resent`].
    #[prost(bool, tag = "4")]
    pub of_resent: bool,
}

/// A message that is given up, and why.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GivenUp {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(string, tag = "2")]
    pub reason: String,
}

/// A message on its way, for `accept` and `refuse`.
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
    /// The generation of the receiver it is for, if that does not know the sender ([`crate::delivery`]).
    #[prost(uint64, tag = "4")]
    pub generation: u64,
    /// Messages in the chain before it.
    #[prost(uint32, tag = "5")]
    pub depth: u32,
    /// What it calls, as `CLASS.METHOD`.
    #[prost(string, tag = "6")]
    pub called: String,
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
    pub mark: OutboxMark,
}

/// Reads what is stored.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn stored<Stored: Message + Default>(what: &str, bytes: Bytes) -> Result<Stored> {
    Stored::decode(bytes)
        .map_err(|cause| Error::corrupt(format!("{what} cannot be decoded: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(chains: &Chains, number: u64) -> u32 {
        chains.link_of(number).map_or(0, |link| link.depth)
    }

    #[test]
    fn a_message_has_the_depth_of_the_call_that_sent_it() {
        let mut chains = Chains { known_to: 3, links: vec![] };
        chains.add(5, 1, "c.a".to_owned(), 1);
        chains.known_to = 7;
        chains.add(8, 4, "c.b".to_owned(), 5);
        let depths: Vec<_> = (3..10).map(|number| depth_of(&chains, number)).collect();
        assert_eq!(depths, [0, 1, 1, 0, 0, 4, 0]);
        assert_eq!(chains.link_of(8).unwrap().called, "c.b");
        chains.add(9, 2, "c.a".to_owned(), 9);
        assert_eq!(chains.links.len(), 1, "the others are delivered");
    }

    #[test]
    fn the_two_oldest_links_are_merged_beyond_the_limit() {
        let mut chains = Chains::default();
        for number in 1..=MAX_LINKS as u64 + 1 {
            chains.add(number, if number == 1 { 9 } else { 2 }, "c.a".to_owned(), 1);
        }
        assert_eq!(chains.links.len(), MAX_LINKS);
        assert_eq!([1, 2, 3].map(|number| depth_of(&chains, number)), [9, 9, 2]);
    }
}
