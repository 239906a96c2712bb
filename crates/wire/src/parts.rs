//! Joins the parts of messages that the peer has cut into parts.
//!
//! **Invariant:** the incomplete messages of a session are bounded in number and in bytes. No
//! message is longer than `MAX_MESSAGE_BYTES` and its framing.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use nacre_protocol::proto::Part;

use crate::limits::{
    MAX_INCOMPLETE_BYTES, MAX_INCOMPLETE_MESSAGES, MAX_MESSAGE_BYTES, MESSAGE_FRAME_BYTES,
};

/// The incomplete messages of one direction of a session, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    incomplete: HashMap<u64, Incomplete>,
    bytes: usize,
}

#[derive(Debug)]
struct Incomplete {
    bytes: BytesMut,
    pool: String,
}

impl Parts {
    /// Adds a part to its message. Returns the encoded message if it is complete now.
    ///
    /// # Errors
    /// Says what the peer did wrong: too many or too large messages, or parts that name different
    /// pools.
    pub(crate) fn add(&mut self, id: u64, part: &Part) -> Result<Option<Bytes>, String> {
        if self.incomplete.len() >= MAX_INCOMPLETE_MESSAGES && !self.incomplete.contains_key(&id) {
            return Err(format!("more than {MAX_INCOMPLETE_MESSAGES} messages are incomplete"));
        }
        if self.bytes + part.bytes.len() > MAX_INCOMPLETE_BYTES {
            return Err(format!("incomplete messages take more than {MAX_INCOMPLETE_BYTES} bytes"));
        }
        let new = || Incomplete { bytes: BytesMut::new(), pool: part.pool.clone() };
        let Incomplete { bytes: message, pool } = self.incomplete.entry(id).or_insert_with(new);
        if *pool != part.pool {
            return Err("the parts of a message name several pools".to_owned());
        }
        if message.len() + part.bytes.len() > MAX_MESSAGE_BYTES + MESSAGE_FRAME_BYTES {
            return Err(format!("a message is longer than {MAX_MESSAGE_BYTES} bytes"));
        }
        message.extend_from_slice(&part.bytes);
        self.bytes += part.bytes.len();
        if !part.is_last {
            return Ok(None);
        }
        let Some(whole) = self.incomplete.remove(&id) else { return Ok(None) };
        self.bytes -= whole.bytes.len();
        Ok(Some(whole.bytes.freeze()))
    }

    /// Drops all incomplete messages.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: usize, is_last: bool) -> Part {
        Part { bytes: vec![b'x'; bytes].into(), is_last, pool: String::new() }
    }

    #[test]
    fn parts_of_two_messages_may_alternate() {
        let mut parts = Parts::default();
        assert_eq!(parts.add(1, &part(2, false)), Ok(None));
        assert_eq!(parts.add(2, &part(3, false)), Ok(None));
        assert_eq!(parts.add(1, &part(1, true)), Ok(Some(Bytes::from_static(b"xxx"))));
        assert_eq!(parts.add(2, &part(1, true)), Ok(Some(Bytes::from_static(b"xxxx"))));
        assert_eq!((parts.incomplete.len(), parts.bytes), (0, 0));
    }

    #[test]
    fn all_parts_of_a_message_name_one_pool() {
        let mut parts = Parts::default();
        parts.add(1, &part(2, false)).unwrap();
        let other = Part { pool: "other".to_owned(), ..part(2, true) };
        assert!(parts.add(1, &other).is_err());
    }

    #[test]
    fn incomplete_messages_are_bounded_in_number_and_bytes() {
        let mut parts = Parts::default();
        for id in 0..MAX_INCOMPLETE_MESSAGES as u64 {
            parts.add(id, &part(1, false)).unwrap();
        }
        assert!(parts.add(u64::MAX, &part(1, false)).is_err());
        parts.clear();
        let half = part(MAX_MESSAGE_BYTES / 2, false);
        assert!((0..3).any(|_| parts.add(1, &half).is_err()), "one message is bounded");
        parts.clear();
        let most = MAX_INCOMPLETE_BYTES / (MAX_MESSAGE_BYTES / 2);
        let refused = (0..=most as u64).filter(|id| parts.add(*id, &half).is_err()).count();
        assert_eq!(refused, 1);
    }
}
