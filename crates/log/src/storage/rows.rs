//! The storage interface as a Brados class has it: requests and replies are rows, a failure is a status
//! that is replied (`ret`), and a batch is many requests of one method.

use nacre_brados::{OutputRows, Value, decode_reply, encode_request};
use nacre_object::{CallReply, Error, Result, Status};

use super::entry::EntryState;
use super::status::{ENODATA, ERANGE};
use crate::codec::POSITION_END;

/// The request of a row of numbers.
pub(super) fn of_numbers(numbers: &[u64]) -> Vec<u8> {
    let row: Vec<_> = numbers.iter().map(|number| Value::Int(*number as i64)).collect();
    encode_request(&row)
}

/// The request of `write`.
pub(super) fn of_write(epoch: u64, position: u64, data: &[u8]) -> Vec<u8> {
    encode_request(&[
        Value::Int(epoch as i64),
        Value::Int(position as i64),
        Value::Bytes(data.to_vec()),
    ])
}

/// The request of `max_position`, which asks for nothing in particular.
pub(super) fn of_maximum() -> Vec<u8> {
    encode_request(&[Value::Nil])
}

/// What a method replied: at most one row an output.
pub(super) struct Reply(Vec<OutputRows>);

impl Reply {
    /// # Errors
    /// `Corrupt` for what is no reply of a Brados class.
    pub fn decode(output: &[u8]) -> Result<Self> {
        decode_reply(output).map(Self).map_err(|error| Error::corrupt(error.to_string()))
    }

    /// The status; 0 where there is none, because something better was replied.
    pub fn status(&self) -> Result<Status> {
        match self.value("ret") {
            None => Ok(0),
            Some(Value::Int(status)) => {
                Status::try_from(*status).map_err(|_| unexpected("a status", status))
            }
            Some(other) => Err(unexpected("a status", other)),
        }
    }

    /// The maximum position that `seal` and `max_position` reply.
    pub fn maximum(&self) -> Result<Option<u64>> {
        match self.value("max") {
            None => Ok(None),
            Some(Value::Int(position)) => match u64::try_from(*position) {
                Ok(position) if position < POSITION_END => Ok(Some(position)),
                _ => Err(unexpected("a position", position)),
            },
            Some(other) => Err(unexpected("a position", other)),
        }
    }

    /// Whether `trim_to` left entries to be reclaimed.
    pub fn has_left(&self) -> bool {
        self.value("left").is_some()
    }

    /// What `read` found.
    pub fn into_entry(mut self) -> Result<EntryState> {
        let status = self.status()?;
        if let Some(Value::Bytes(data)) = self.take("entry") {
            return Ok(EntryState::Data(data.into()));
        }
        match (status, self.value("gap")) {
            (ERANGE, _) => Ok(EntryState::Unwritten),
            (ENODATA, Some(Value::Bytes(state))) if state == b"filled" => Ok(EntryState::Filled),
            (ENODATA, _) => Ok(EntryState::Trimmed),
            _ => Err(unexpected("an entry", &self.0)),
        }
    }

    fn value(&self, output: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == output)?.1.first()?.first()
    }

    fn take(&mut self, output: &str) -> Option<Value> {
        let (_, rows) = self.0.iter_mut().find(|(name, _)| name == output)?;
        Some(rows.first_mut()?.swap_remove(0))
    }
}

/// The status of an answer in a batch: its own, or that of the request it refused.
pub(super) fn status_of(answer: &CallReply) -> Result<Status> {
    if answer.status < 0 { Ok(answer.status) } else { Reply::decode(&answer.output)?.status() }
}

/// What a request of a batch of reads found.
pub(super) fn entry_of(answer: CallReply) -> Result<EntryState> {
    match answer.status {
        0.. => Reply::decode(&answer.output)?.into_entry(),
        // The row of the entry makes no sense.
        _ => Ok(EntryState::Damaged),
    }
}

fn unexpected(what: &str, got: &dyn std::fmt::Debug) -> Error {
    Error::corrupt(format!("the log class replied {got:?} for {what}"))
        .hint("is the class of the log's view made of `log.brados`?")
}
