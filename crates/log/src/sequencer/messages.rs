//! Encodes and decodes the requests to a sequencer's host, and its answers.
//!
//! Numbers are little-endian, and a string has its length (u16) before it. Every request starts
//! with the log's name and the epoch of the client's view, as [`nacre_host`] describes.
//!
//! | method | after the header | answer |
//! | --- | --- | --- |
//! | `next` | count u32 and, if the client has one, its number u64 | first position u64, count u32, epoch u64 |
//! | `acquire` | client u64, number of the attempt u64, count u32, the grant that is returned u64 (0: none), its tail u64 and operations u64 | kind u8, first position u64, count u32, epoch u64 and: 0, ask for nothing but `next` for u32 (ms); 1, lease u32 (us), end u64, operations u64 (0: any number) |
//! | `hold` | client u64, grant u64, tail u64, operations u64, number of the last received request for the tail u64, whether the holder knows that a client follows the log u8, wait u32 (ms): answer when there is news, or after that | 1 if the grant has ended; 0, lease u32 (us), end u64, epoch u64, number of the last request for the tail u64, whether a client follows the log u8 |
//! | `return` | client u64, grant u64, tail u64, operations u64 | epoch u64 |
//! | `tail` | beyond u64, wait u32 (ms): answer when the tail is greater, or after that | tail u64, epoch u64 under which it was found |
//! | `recover` | – | as for every host |
//! | `hand-over` | node (string): the new sequencer's; and 1 (u8) if this node is to forward requests to it afterwards | epoch u64 |
//! | `reconfigure` | kind u8 and: 0, width u32, slots u32 (0 keeps), count u16 and names of targets to avoid; 1, class (string); 2, position u64; 3, capability program (string; empty: the default policy) | epoch u64 |
//!
//! A node of an earlier release does not know `acquire`, and a client of an earlier release does
//! not send it. They use `next` instead.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use nacre_host::{ClientRouting, Question as HostQuestion, RECOVER, put_header, split_header};
use nacre_object::{ClassName, Error, NodeName, ProgramName, Result, TargetName};

use super::lending_messages::{Acquire, Hold, client_number, put_returned, take_returned};
use crate::LogName;
use crate::codec::{Decoded, Decoder, Undecodable, put_text};
use crate::core::{Grant, Returned};
use crate::view::Layout;

/// A position, a count and an epoch.
const GRANT_BYTES: usize = 8 + 4 + 8;
/// Marks a hand-over after which the former node forwards requests.
const FORWARD: u8 = 1;
/// The method by which a client asks for positions, and for the capability to issue more.
pub(crate) const ACQUIRE: &str = "acquire";
/// The method by which the holder of the capability polls the sequencer.
pub(crate) const HOLD: &str = "hold";
/// The method by which the holder returns the capability.
pub(crate) const RETURN: &str = "return";
const METHODS: [&str; 8] =
    ["next", ACQUIRE, HOLD, RETURN, "tail", RECOVER, "hand-over", "reconfigure"];
/// How many targets one request may name. No cluster of this design has more.
const MAX_AVOIDED: usize = 1024;

/// A change of a log's view that its sequencer makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconfiguration {
    /// Lay the positions from the tail on out afresh.
    Relayout {
        /// The new shape; `None` keeps it.
        layout: Option<Layout>,
        /// Targets not to use.
        avoid: Vec<TargetName>,
    },
    /// Use another implementation of the storage interface.
    Class(ClassName),
    /// Forget the positions below, which are trimmed.
    Forget(u64),
    /// Let this program decide who holds the sequencer's capability; `None` for the default policy.
    Capability(Option<ProgramName>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Next { count: u32, client: u64 },
    Acquire(Acquire),
    Hold(Hold),
    Return(Returned),
    Tail { beyond: u64, wait: Duration },
    Recover,
    HandOver { to: NodeName, routing: ClientRouting },
    Reconfigure(Reconfiguration),
}

/// A request about a log, from a client whose view has `epoch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    /// The log's name as the client sent it. It is only looked up, and may be an invalid name.
    pub log: &'a str,
    pub epoch: u64,
    pub question: Question,
}

impl HostQuestion<LogName> for Question {
    fn method(&self) -> &'static str {
        match self {
            Self::Next { .. } => "next",
            Self::Acquire(_) => ACQUIRE,
            Self::Hold(_) => HOLD,
            Self::Return(_) => RETURN,
            Self::Tail { .. } => "tail",
            Self::Recover => RECOVER,
            Self::HandOver { .. } => "hand-over",
            Self::Reconfigure(_) => "reconfigure",
        }
    }

    fn encode(&self, log: &LogName, epoch: u64) -> Bytes {
        // The capacity is the exact length of the most frequent request, `next`. So its buffer is
        // sent without a copy.
        let mut input = BytesMut::with_capacity(2 + log.as_str().len() + 8 + 4 + 8);
        put_header(&mut input, log.as_str(), epoch);
        match self {
            Self::Next { count, client } => {
                input.put_u32_le(*count);
                if *client != 0 {
                    input.put_u64_le(*client);
                }
            }
            Self::Acquire(acquire) => acquire.encode(&mut input),
            Self::Hold(hold) => hold.encode(&mut input),
            Self::Return(returned) => put_returned(&mut input, *returned),
            Self::Tail { beyond, wait } => {
                input.put_u64_le(*beyond);
                input.put_u32_le(u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
            }
            Self::Recover => {}
            Self::HandOver { to, routing } => {
                put_text(&mut input, to.as_str());
                if *routing == ClientRouting::Forward {
                    input.put_u8(FORWARD);
                }
            }
            Self::Reconfigure(change) => change.encode(&mut input),
        }
        input.freeze()
    }

    fn answered_under(&self, answer: &[u8]) -> Option<u64> {
        match self {
            // Both answers end with it.
            Self::Next { .. } | Self::Tail { .. } => {
                answer.last_chunk().map(|epoch| u64::from_le_bytes(*epoch))
            }
            // A kind, then what the answer to `next` has.
            Self::Acquire(_) => {
                let grant = answer.get(1..1 + GRANT_BYTES)?;
                grant.last_chunk().map(|epoch| u64::from_le_bytes(*epoch))
            }
            Self::Hold(_)
            | Self::Return(_)
            | Self::Recover
            | Self::HandOver { .. }
            | Self::Reconfigure(_) => None,
        }
    }
}

impl<'a> Asked<'a> {
    /// Decodes a request to `method`.
    ///
    /// # Errors
    /// `Unsupported` for a method that no host has, `Invalid` for input that cannot be decoded.
    pub fn decode(method: &str, input: &'a [u8]) -> Result<Self> {
        if !METHODS.contains(&method) {
            return Err(Error::unsupported(format!("a sequencer has no method {method:?}")));
        }
        Self::parse(method, input).map_err(|Undecodable| {
            Error::invalid("the request to the sequencer cannot be decoded")
                .hint("run the client and the node from one release")
        })
    }

    fn parse(method: &str, input: &'a [u8]) -> Decoded<Self> {
        let (log, epoch, rest) = split_header(input).ok_or(Undecodable)?;
        let mut decoder = Decoder::new(rest);
        let question = match method {
            "next" => {
                let count = decoder.u32()?;
                let client = if decoder.has_more() { client_number(&mut decoder)? } else { 0 };
                Question::Next { count, client }
            }
            ACQUIRE => Question::Acquire(Acquire::decode(&mut decoder)?),
            HOLD => Question::Hold(Hold::decode(&mut decoder)?),
            RETURN => Question::Return(take_returned(&mut decoder)?),
            "tail" => Question::Tail {
                beyond: decoder.u64()?,
                wait: Duration::from_millis(decoder.u32()?.into()),
            },
            RECOVER => Question::Recover,
            "hand-over" => Question::HandOver {
                to: NodeName::new(decoder.text()?).map_err(|_| Undecodable)?,
                routing: match decoder.u8() {
                    Err(_) => ClientRouting::Redirect,
                    Ok(FORWARD) => ClientRouting::Forward,
                    Ok(_) => return Err(Undecodable),
                },
            },
            _ => Question::Reconfigure(Reconfiguration::decode(&mut decoder)?),
        };
        decoder.finish()?;
        Ok(Self { log, epoch, question })
    }
}

/// Whether the right to append suffices for this request. That is so if the request asks for
/// positions, for another sequencer, or for a layout without some targets. Appending clients send
/// the last two when a sequencer or a target has failed. None of them changes the records of the
/// log.
pub fn is_question_of_producers(method: &str, input: &[u8]) -> bool {
    match method {
        "next" | ACQUIRE | HOLD | RETURN | RECOVER => true,
        _ => Asked::decode(method, input).is_ok_and(|asked| match asked.question {
            Question::Reconfigure(Reconfiguration::Relayout { layout, .. }) => layout.is_none(),
            _ => false,
        }),
    }
}

impl Reconfiguration {
    fn encode(&self, input: &mut BytesMut) {
        match self {
            Self::Relayout { layout, avoid } => {
                input.put_u8(0);
                input.put_u32_le(layout.map_or(0, |layout| layout.width));
                input.put_u32_le(layout.map_or(0, |layout| layout.slots));
                let avoid = &avoid[..avoid.len().min(MAX_AVOIDED)];
                input.put_u16_le(avoid.len() as u16);
                avoid.iter().for_each(|target| put_text(input, target.as_str()));
            }
            Self::Class(class) => {
                input.put_u8(1);
                put_text(input, class.as_str());
            }
            Self::Forget(position) => {
                input.put_u8(2);
                input.put_u64_le(*position);
            }
            Self::Capability(program) => {
                input.put_u8(3);
                put_text(input, program.as_ref().map_or("", ProgramName::as_str));
            }
        }
    }

    fn decode(decoder: &mut Decoder<&[u8]>) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            0 => {
                let layout = Layout { width: decoder.u32()?, slots: decoder.u32()? };
                let layout = (layout.width != 0 || layout.slots != 0).then_some(layout);
                let count = usize::from(decoder.u16()?);
                if count > MAX_AVOIDED {
                    return Err(Undecodable);
                }
                let name = |_| TargetName::new(decoder.text()?).map_err(|_| Undecodable);
                let avoid: Decoded<_> = (0..count).map(name).collect();
                Self::Relayout { layout, avoid: avoid? }
            }
            1 => Self::Class(ClassName::new(decoder.text()?).map_err(|_| Undecodable)?),
            2 => Self::Forget(decoder.position()?),
            3 => Self::Capability(match decoder.text()?.as_str() {
                "" => None,
                name => Some(ProgramName::new(name).map_err(|_| Undecodable)?),
            }),
            _ => return Err(Undecodable),
        })
    }
}

pub(super) fn put_grant(output: &mut BytesMut, grant: Grant) {
    output.put_u64_le(grant.first);
    output.put_u32_le(grant.count);
    output.put_u64_le(grant.epoch);
}

pub(super) fn take_grant(decoder: &mut Decoder) -> Decoded<Grant> {
    let grant = Grant { first: decoder.position()?, count: decoder.u32()?, epoch: decoder.u64()? };
    if grant.count == 0 { Err(Undecodable) } else { Ok(grant) }
}

pub(crate) fn encode_grant(grant: Grant) -> Bytes {
    let mut output = BytesMut::with_capacity(20);
    put_grant(&mut output, grant);
    output.freeze()
}

/// # Errors
/// `Corrupt` for an answer of another form.
pub(crate) fn decode_grant(output: Bytes) -> Result<Grant> {
    let parse = || {
        let mut decoder = Decoder::new(output);
        let grant = take_grant(&mut decoder)?;
        decoder.finish().map(|()| grant)
    };
    parse().map_err(unexpected)
}

/// Encodes a tail, with the epoch of the view that has all positions below the tail.
pub(crate) fn encode_tail(tail: u64, epoch: u64) -> Bytes {
    let mut output = BytesMut::with_capacity(16);
    output.put_u64_le(tail);
    output.put_u64_le(epoch);
    output.freeze()
}

/// # Errors
/// `Corrupt` for an answer of another form.
pub(crate) fn decode_tail(output: Bytes) -> Result<(u64, u64)> {
    let parse = || {
        let mut decoder = Decoder::new(output);
        let answer = (decoder.u64()?, decoder.u64()?);
        decoder.finish().map(|()| answer)
    };
    parse().map_err(unexpected)
}

pub(super) fn unexpected(_: Undecodable) -> Error {
    Error::corrupt("the sequencer's answer cannot be decoded")
        .hint("run the client and the node from one release")
}

#[cfg(test)]
mod tests {
    use super::super::lending_messages::{Acquired, encode_acquired};
    use super::*;

    #[test]
    fn a_producer_cannot_ask_for_a_change_of_the_logs_content() {
        let log = LogName::new("l").unwrap();
        let asks = |question: Question| {
            is_question_of_producers(question.method(), &question.encode(&log, 1))
        };
        let relayout = |layout| {
            let avoid = vec![TargetName::new("storage.0").unwrap()];
            Question::Reconfigure(Reconfiguration::Relayout { layout, avoid })
        };
        assert!(asks(Question::Next { count: 1, client: 0 }) && asks(Question::Recover));
        assert!(lending_questions().into_iter().all(asks));
        assert!(asks(relayout(None)));
        assert!(!asks(relayout(Some(Layout { width: 1, slots: 4 }))));
        assert!(!asks(Question::Reconfigure(Reconfiguration::Forget(9))));
        assert!(!asks(Question::Reconfigure(Reconfiguration::Capability(None))));
        let class = ClassName::new("other").unwrap();
        assert!(!asks(Question::Reconfigure(Reconfiguration::Class(class))));
        assert!(!is_question_of_producers("another", b""));
    }

    fn log() -> LogName {
        LogName::new("l").unwrap()
    }

    #[test]
    fn an_answer_contains_the_epoch_under_which_it_was_given() {
        let grant = encode_grant(Grant { first: 1, count: 2, epoch: 3 });
        let next = Question::Next { count: 2, client: 0 };
        assert_eq!(next.answered_under(&grant), Some(3));
        let acquire = Acquire { client: 9, number: 1, count: 2, returned: None };
        let acquired = Acquired::Positions(Grant { first: 1, count: 2, epoch: 3 }, Duration::ZERO);
        let answer = encode_acquired(acquired);
        assert_eq!(Question::Acquire(acquire).answered_under(&answer), Some(3));
        let tail = Question::Tail { beyond: 0, wait: Duration::ZERO };
        assert_eq!(tail.answered_under(&encode_tail(9, 4)), Some(4));
        assert_eq!(Question::Recover.answered_under(&grant), None);
    }

    fn lending_questions() -> Vec<Question> {
        let told = Returned { client: 9, number: 2, tail: 1 << 50, operations: 3 };
        let (number, count) = (3, 64);
        let wait = Duration::from_millis(100);
        vec![
            Question::Acquire(Acquire { client: 9, number, count, returned: Some(told) }),
            Question::Acquire(Acquire { client: 9, number, count, returned: None }),
            Question::Hold(Hold { told, answered: 4, is_followed: true, wait }),
            Question::Return(told),
        ]
    }

    fn all() -> Vec<Question> {
        let target = |name: &str| TargetName::new(name).unwrap();
        let questions = vec![
            Question::Next { count: 7, client: 0 },
            Question::Next { count: 7, client: 1 << 52 },
            Question::Tail { beyond: 1 << 40, wait: Duration::from_millis(250) },
            Question::Recover,
            Question::Reconfigure(Reconfiguration::Relayout {
                layout: Some(Layout { width: 4, slots: 100 }),
                avoid: vec![target("a"), target("b")],
            }),
            Question::Reconfigure(Reconfiguration::Relayout { layout: None, avoid: vec![] }),
            Question::Reconfigure(Reconfiguration::Class(ClassName::new("log").unwrap())),
            Question::Reconfigure(Reconfiguration::Forget(12)),
            Question::Reconfigure(Reconfiguration::Capability(None)),
            Question::Reconfigure(Reconfiguration::Capability("delay".parse().ok())),
        ];
        questions.into_iter().chain(lending_questions()).collect()
    }

    #[test]
    fn every_request_decodes_to_what_was_encoded() {
        for question in all() {
            let method = question.method();
            let input = question.encode(&log(), 9);
            let asked = Asked { log: "l", epoch: 9, question };
            assert_eq!(Asked::decode(method, &input).unwrap(), asked);
        }
    }

    #[test]
    fn a_request_that_is_too_short_or_too_long_is_refused() {
        for question in all() {
            let method = question.method();
            let good = question.encode(&log(), 9);
            for length in 0..good.len() {
                // Positions may be asked for without a number of the client.
                let is_whole = method == "next" && length == good.len() - 8;
                let cut = good.slice(..length);
                let cut = Asked::decode(method, &cut);
                assert!(cut.is_err() || is_whole, "{method} of {length} bytes");
            }
            assert!(Asked::decode(method, &[&good[..], b"x"].concat()).is_err());
        }
        assert!(Asked::decode("prev", &[]).is_err());
    }
}
