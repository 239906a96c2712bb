//! Decodes waiting messages into what the courier must do.

use bytes::Bytes;
use nacre_calls::{NOTIFY, REMOVE_OBJECT, is_enqueue};
use nacre_calls::{OutputRows, Value, decode_reply, encode_request};
use nacre_object::{ClassCall, EntityName, Error, ObjectId, ObjectName, PoolName, Result};

/// The channel shown for a malformed message.
const UNREADABLE: &str = "unreadable";

/// A message as it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    /// Its number: messages of one incarnation of an object are numbered as they are sent.
    pub number: u64,
    /// The entity whose request sent the message, if that is known.
    pub source: String,
    /// The channel it was sent into.
    pub channel: String,
    /// Its row.
    pub row: Vec<Value>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Remove the object.
    Remove,
    /// Tell its watchers.
    Notify(Bytes),
    /// Call another object.
    Call {
        /// The object.
        receiver: ObjectId,
        /// The call.
        call: ClassCall,
        /// Whose it is.
        source: EntityName,
    },
}

fn unreadable() -> Error {
    Error::corrupt("the message is malformed")
}

impl WaitingMessage {
    /// Reads a stored message.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn decode(number: u64, stored: &[u8]) -> Result<Self> {
        let (&length, rest) = stored.split_first().ok_or_else(unreadable)?;
        let (source, reply) = rest.split_at_checked(usize::from(length)).ok_or_else(unreadable)?;
        let source = std::str::from_utf8(source).map_err(|_| unreadable())?.to_owned();
        let outputs = decode_reply(reply).map_err(|_| unreadable())?;
        let one: [OutputRows; 1] = outputs.try_into().map_err(|_| unreadable())?;
        let [(channel, rows)] = one;
        let [row]: [Vec<Value>; 1] = rows.try_into().map_err(|_| unreadable())?;
        Ok(Self { number, source, channel, row })
    }

    /// Decodes a message for people. A malformed one is shown as it is.
    pub(crate) fn shown(number: u64, stored: &[u8]) -> Self {
        Self::decode(number, stored).unwrap_or_else(|_| Self {
            number,
            source: String::new(),
            channel: UNREADABLE.to_owned(),
            row: vec![Value::Bytes(stored.to_vec())],
        })
    }

    /// Decodes what the message asks the courier to do. `pool` is the pool of the sender.
    ///
    /// # Errors
    /// `Invalid` if the message names no object, class or method; `Corrupt` if its channel is not
    /// one that couriers deliver.
    pub(crate) fn errand(&self, pool: &PoolName) -> Result<Errand> {
        match (&*self.channel, &self.row[..]) {
            (REMOVE_OBJECT, _) => Ok(Errand::Remove),
            (NOTIFY, [Value::Bytes(payload)]) => {
                Ok(Errand::Notify(Bytes::copy_from_slice(payload)))
            }
            (name, [object, class, method, row @ ..]) if is_enqueue(name) => Ok(Errand::Call {
                receiver: ObjectId::new(pool.clone(), ObjectName::new(text(object)?)?),
                call: ClassCall {
                    class: text(class)?.parse()?,
                    method: text(method)?.parse()?,
                    version: None,
                    input: encode_request(row).into(),
                },
                source: EntityName::new(&self.source)?,
            }),
            _ => Err(unreadable()),
        }
    }
}

fn text(value: &Value) -> Result<&str> {
    match value {
        Value::Bytes(bytes) => {
            std::str::from_utf8(bytes).map_err(|_| Error::invalid("the name is not UTF-8"))
        }
        _ => Err(unreadable()),
    }
}

#[cfg(test)]
mod tests {
    use nacre_calls::ENQUEUE;

    use super::*;

    /// A message as a class stores it.
    fn stored(source: &str, channel: &str, row: &[Value]) -> Vec<u8> {
        let mut bytes = vec![source.len() as u8];
        bytes.extend_from_slice(source.as_bytes());
        bytes.push(channel.len() as u8);
        bytes.extend_from_slice(channel.as_bytes());
        bytes.push(row.len() as u8);
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&encode_request(row));
        bytes
    }

    fn errand(channel: &str, row: &[Value]) -> Result<Errand> {
        let message = WaitingMessage::decode(7, &stored("alice", channel, row))?;
        assert_eq!((message.number, &*message.source), (7, "alice"));
        message.errand(&PoolName::new("data").unwrap())
    }

    #[test]
    fn a_message_is_decoded_into_a_task_of_the_courier() {
        assert_eq!(errand(REMOVE_OBJECT, &[Value::text("why")]).unwrap(), Errand::Remove);
        let told = Errand::Notify(Bytes::from_static(b"x"));
        assert_eq!(errand(NOTIFY, &[Value::text("x")]).unwrap(), told);
        let row = [Value::text("a/b"), Value::text("c"), Value::text("put"), Value::Int(1)];
        let Errand::Call { receiver, call, source } = errand(ENQUEUE, &row).unwrap() else {
            panic!("no call");
        };
        assert_eq!((receiver.to_string().as_str(), source.as_str()), ("data/a/b", "alice"));
        assert_eq!((call.class.as_str(), call.method.as_str()), ("c", "put"));
        assert_eq!(call.input, encode_request(&[Value::Int(1)]));
    }

    #[test]
    fn a_malformed_message_or_one_without_a_receiver_is_refused() {
        let row = [Value::text(""), Value::text("c"), Value::text("put")];
        assert!(errand(ENQUEUE, &row).is_err(), "an empty name");
        assert!(errand(ENQUEUE, &row[..2]).is_err(), "no method");
        assert!(errand("other", &row).is_err(), "no channel of the runtime");
        let whole = stored("alice", NOTIFY, &[Value::text("x")]);
        for length in 0..whole.len() {
            assert!(WaitingMessage::decode(1, &whole[..length]).is_err(), "{length}");
        }
    }
}
