//! The storage interface in the dialect of a Brados class. Requests and replies are rows, a failure
//! is a status in the reply (`ret`), and a batch is many requests of one method.

use bytes::Bytes;
use nacre_calls::{OutputRows, Value, decode_reply, encode_request, put_request};
use nacre_calls::{decode_answers, encode_batch_with};
use nacre_object::{CallReply, Error, Result, Status};

use super::dialect::{Ask, CallFailure, CallResult, Dialect};
use super::entry::EntryState;
use super::status::{ENODATA, ENOENT, ERANGE, ESPIPE};
use crate::codec::POSITION_END;

/// How many bytes a `write` request has besides its data: epoch and position, 9 bytes each, and
/// type and length of the data, 5 bytes.
const WRITE_HEAD_BYTES: usize = 2 * 9 + 5;

/// The dialect of Brados classes.
pub(super) struct Rows;

impl Dialect for Rows {
    fn methods(&self) -> &'static [&'static str] {
        &["seal", "max_position", "read", "write", "fill", "trim", "trim_to"]
    }

    fn seal(&self, epoch: u64) -> Ask {
        Ask { method: "seal", input: of_numbers(&[epoch]).into() }
    }

    fn max_position(&self) -> Ask {
        // It asks for nothing in particular.
        Ask { method: "max_position", input: encode_request(&[Value::Nil]).into() }
    }

    fn write(&self, epoch: u64, entries: &[(u64, &Bytes)]) -> Ask {
        let bytes = entries.iter().map(|(_, data)| WRITE_HEAD_BYTES + data.len()).sum();
        let input = encode_batch_with(u32::MAX, bytes, entries, |input, (position, data)| {
            put_request(input, &[epoch as i64, *position as i64], Some(data));
        });
        Ask { method: "write.batch", input }
    }

    fn fill(&self, epoch: u64, positions: &[u64]) -> Ask {
        Ask { method: "fill.batch", input: of_positions(epoch, u32::MAX, positions) }
    }

    fn read(&self, epoch: u64, byte_limit: u32, positions: &[u64]) -> Ask {
        Ask { method: "read.batch", input: of_positions(epoch, byte_limit, positions) }
    }

    fn trim(&self, epoch: u64, position: u64) -> Ask {
        Ask { method: "trim", input: of_numbers(&[epoch, position]).into() }
    }

    fn trim_to(&self, epoch: u64, position: u64) -> Ask {
        Ask { method: "trim_to", input: of_numbers(&[epoch, position]).into() }
    }

    fn maximum(&self, answer: Bytes) -> CallResult<Option<u64>> {
        Ok(Reply::of_success(&answer)?.maximum()?)
    }

    fn statuses(&self, answer: Bytes, asked: usize) -> CallResult<Vec<Status>> {
        let answers = answers(answer, asked)?;
        if answers.len() < asked {
            let text = format!("the class answered {} of {asked} requests", answers.len());
            return Err(Error::corrupt(text).into());
        }
        // Most requests have the same outcome as the request before, so compare before decoding.
        let mut statuses: Vec<Status> = Vec::with_capacity(asked);
        let mut last: Option<&CallReply> = None;
        for answer in &answers {
            let status = match (last, statuses.last()) {
                (Some(last), Some(status)) if last == answer => *status,
                _ => status_of(answer)?,
            };
            statuses.push(status);
            last = Some(answer);
        }
        Ok(statuses)
    }

    fn states(&self, answer: Bytes, asked: usize) -> CallResult<Vec<EntryState>> {
        Ok(answers(answer, asked)?.into_iter().map(entry_of).collect::<Result<_>>()?)
    }

    fn trimmed(&self, answer: Bytes) -> CallResult<()> {
        Reply::of_success(&answer).map(drop)
    }

    fn has_left(&self, answer: Bytes) -> CallResult<bool> {
        Ok(Reply::of_success(&answer)?.value("left").is_some())
    }
}

/// The request of a row of numbers.
fn of_numbers(numbers: &[u64]) -> Vec<u8> {
    let row: Vec<_> = numbers.iter().map(|number| *number as i64).collect();
    let mut request = vec![];
    put_request(&mut request, &row, None);
    request
}

/// A batch of requests about positions.
fn of_positions(epoch: u64, byte_limit: u32, positions: &[u64]) -> Bytes {
    let bytes = positions.len() * WRITE_HEAD_BYTES;
    encode_batch_with(byte_limit, bytes, positions, |input, position| {
        put_request(input, &[epoch as i64, *position as i64], None);
    })
}

/// Decodes the answers of a batch. All its requests have the same epoch. So if one of them is
/// refused for its epoch, the whole batch fails.
fn answers(answer: Bytes, asked: usize) -> CallResult<Vec<CallReply>> {
    let answers = decode_answers(answer, asked)?;
    match answers.first().map_or(Ok(0), status_of)? {
        status @ (ESPIPE | ENOENT) => refuse(status).map(|()| answers),
        _ => Ok(answers),
    }
}

/// Turns the status in a reply into the error that it stands for.
fn refuse(status: Status) -> CallResult<()> {
    match status {
        0.. => Ok(()),
        ESPIPE => Err(CallFailure::Stale),
        ENOENT => Err(CallFailure::Unsealed),
        status => {
            Err(Error::from_status(status, format!("the log's class replied with status {status}"))
                .into())
        }
    }
}

/// The reply of a method: at most one row for each output.
struct Reply(Vec<OutputRows>);

impl Reply {
    /// Decodes a reply.
    ///
    /// # Errors
    /// `Corrupt` if it is not the reply of a Brados class.
    fn decode(output: &[u8]) -> Result<Self> {
        decode_reply(output).map(Self).map_err(|error| Error::corrupt(error.to_string()))
    }

    /// Decodes the reply to a request. Fails if the status in the reply says that the request
    /// failed.
    fn of_success(output: &[u8]) -> CallResult<Self> {
        let reply = Self::decode(output)?;
        refuse(reply.status()?).map(|()| reply)
    }

    /// The status. 0 if the reply has none, because it has a result instead.
    fn status(&self) -> Result<Status> {
        match self.value("ret") {
            None => Ok(0),
            Some(Value::Int(status)) => {
                Status::try_from(*status).map_err(|_| unexpected("a status", status))
            }
            Some(other) => Err(unexpected("a status", other)),
        }
    }

    /// The maximum position that `seal` and `max_position` reply.
    fn maximum(&self) -> Result<Option<u64>> {
        match self.value("max") {
            None => Ok(None),
            Some(Value::Int(position)) => match u64::try_from(*position) {
                Ok(position) if position < POSITION_END => Ok(Some(position)),
                _ => Err(unexpected("a position", position)),
            },
            Some(other) => Err(unexpected("a position", other)),
        }
    }

    /// What `read` found.
    fn into_entry(mut self) -> Result<EntryState> {
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

/// The status of an answer in a batch: its own, or the status in its reply.
fn status_of(answer: &CallReply) -> Result<Status> {
    if answer.status < 0 { Ok(answer.status) } else { Reply::decode(&answer.output)?.status() }
}

/// What a request of a batch of reads found.
fn entry_of(answer: CallReply) -> Result<EntryState> {
    match answer.status {
        0.. => Reply::decode(&answer.output)?.into_entry(),
        // The row of the entry makes no sense.
        _ => Ok(EntryState::Damaged),
    }
}

fn unexpected(what: &str, got: &dyn std::fmt::Debug) -> Error {
    Error::corrupt(format!("the log class replied {got:?} for {what}"))
        .hint("check that the log's class is `log.brados` of the standard library: see it with `nacre log stat`")
}
