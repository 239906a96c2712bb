//! Encodes the inputs and decodes the outputs of the native class and of the Lua program, as the
//! table in [`super`] describes them.

use bytes::{BufMut, Bytes, BytesMut};
use nacre_object::{Error, Result, Status};

use super::dialect::{Ask, CallResult, Dialect};
use super::entry::EntryState;
use crate::codec::{Decoded, Decoder, Undecodable, put_sized_bytes};

/// The most entries of one batch. Such a call stays far below a script's time budget.
pub(crate) const MAX_BATCH_ENTRIES: usize = 1024;

/// The dialect of classes whose methods' inputs and outputs are packed.
pub(super) struct Packed;

impl Dialect for Packed {
    fn methods(&self) -> &'static [&'static str] {
        &["seal", "max_position", "read_batch", "write_batch", "fill_batch", "trim", "trim_to"]
    }

    fn seal(&self, epoch: u64) -> Ask {
        Ask { method: "seal", input: encode_epoch(epoch) }
    }

    fn max_position(&self) -> Ask {
        Ask { method: "max_position", input: Bytes::new() }
    }

    fn write(&self, epoch: u64, entries: &[(u64, &Bytes)]) -> Ask {
        Ask { method: "write_batch", input: encode_write_batch(epoch, entries) }
    }

    fn fill(&self, epoch: u64, positions: &[u64]) -> Ask {
        Ask { method: "fill_batch", input: encode_fill_batch(epoch, positions) }
    }

    fn read(&self, epoch: u64, byte_limit: u32, positions: &[u64]) -> Ask {
        Ask { method: "read_batch", input: encode_read_batch(epoch, byte_limit, positions) }
    }

    fn trim(&self, epoch: u64, position: u64) -> Ask {
        Ask { method: "trim", input: encode_position(epoch, position) }
    }

    fn trim_to(&self, epoch: u64, position: u64) -> Ask {
        Ask { method: "trim_to", input: encode_position(epoch, position) }
    }

    fn maximum(&self, answer: Bytes) -> CallResult<Option<u64>> {
        Ok(decode_maximum(answer)?)
    }

    fn statuses(&self, answer: Bytes, asked: usize) -> CallResult<Vec<Status>> {
        Ok(decode_statuses(answer, asked)?)
    }

    fn states(&self, answer: Bytes, asked: usize) -> CallResult<Vec<EntryState>> {
        Ok(decode_states(answer, asked)?)
    }

    fn trimmed(&self, _: Bytes) -> CallResult<()> {
        Ok(())
    }

    fn has_left(&self, answer: Bytes) -> CallResult<bool> {
        Ok(answer.first().is_some_and(|left| *left != 0))
    }
}

/// The input of `seal`.
pub(super) fn encode_epoch(epoch: u64) -> Bytes {
    Bytes::copy_from_slice(&epoch.to_le_bytes())
}

/// The input of `read`, `fill`, `trim` and `trim_to`.
pub(super) fn encode_position(epoch: u64, position: u64) -> Bytes {
    let mut input = BytesMut::with_capacity(16);
    input.put_u64_le(epoch);
    input.put_u64_le(position);
    input.freeze()
}

/// The input of `write_batch`.
pub(super) fn encode_write_batch(epoch: u64, entries: &[(u64, &Bytes)]) -> Bytes {
    let data: usize = entries.iter().map(|(_, data)| data.len()).sum();
    let mut input = BytesMut::with_capacity(12 + 12 * entries.len() + data);
    input.put_u64_le(epoch);
    input.put_u32_le(entries.len() as u32);
    for (position, data) in entries {
        input.put_u64_le(*position);
        put_sized_bytes(&mut input, data);
    }
    input.freeze()
}

/// The input of `fill_batch`.
pub(super) fn encode_fill_batch(epoch: u64, positions: &[u64]) -> Bytes {
    let mut input = BytesMut::with_capacity(12 + 8 * positions.len());
    input.put_u64_le(epoch);
    put_positions(&mut input, positions);
    input.freeze()
}

/// The input of `read_batch`.
pub(super) fn encode_read_batch(epoch: u64, byte_limit: u32, positions: &[u64]) -> Bytes {
    let mut input = BytesMut::with_capacity(16 + 8 * positions.len());
    input.put_u64_le(epoch);
    input.put_u32_le(byte_limit);
    put_positions(&mut input, positions);
    input.freeze()
}

fn put_positions(input: &mut BytesMut, positions: &[u64]) {
    input.put_u32_le(positions.len() as u32);
    positions.iter().for_each(|position| input.put_u64_le(*position));
}

pub(super) fn decode_epoch(input: Bytes) -> Decoded<u64> {
    let mut decoder = Decoder::new(input);
    let epoch = decoder.u64()?;
    decoder.finish()?;
    Ok(epoch)
}

pub(super) fn decode_position(input: Bytes) -> Decoded<(u64, u64)> {
    let mut decoder = Decoder::new(input);
    let fields = (decoder.u64()?, decoder.position()?);
    decoder.finish()?;
    Ok(fields)
}

pub(super) fn decode_write(input: Bytes) -> Decoded<(u64, u64, Bytes)> {
    let mut decoder = Decoder::new(input);
    Ok((decoder.u64()?, decoder.position()?, decoder.rest()))
}

pub(super) fn decode_write_batch(input: Bytes) -> Decoded<(u64, Vec<(u64, Bytes)>)> {
    let mut decoder = Decoder::new(input);
    let epoch = decoder.u64()?;
    let count = decode_count(&mut decoder)?;
    let entries: Decoded<Vec<_>> =
        (0..count).map(|_| Ok((decoder.position()?, decoder.sized_bytes()?))).collect();
    let entries = entries?;
    decoder.finish()?;
    Ok((epoch, entries))
}

pub(super) fn decode_fill_batch(input: Bytes) -> Decoded<(u64, Vec<u64>)> {
    let mut decoder = Decoder::new(input);
    let epoch = decoder.u64()?;
    Ok((epoch, decode_positions(decoder)?))
}

pub(super) fn decode_read_batch(input: Bytes) -> Decoded<(u64, usize, Vec<u64>)> {
    let mut decoder = Decoder::new(input);
    let epoch = decoder.u64()?;
    let byte_limit = decoder.u32()? as usize;
    Ok((epoch, byte_limit, decode_positions(decoder)?))
}

fn decode_positions(mut decoder: Decoder) -> Decoded<Vec<u64>> {
    let count = decode_count(&mut decoder)?;
    let positions: Decoded<Vec<_>> = (0..count).map(|_| decoder.position()).collect();
    let positions = positions?;
    decoder.finish()?;
    Ok(positions)
}

fn decode_count(decoder: &mut Decoder) -> Decoded<usize> {
    let count = decoder.u32()? as usize;
    if count > MAX_BATCH_ENTRIES { Err(Undecodable) } else { Ok(count) }
}

/// The output of `max_position` and `seal`.
pub(super) fn encode_maximum(maximum: Option<u64>) -> Bytes {
    let mut output = BytesMut::with_capacity(9);
    output.put_u8(u8::from(maximum.is_some()));
    output.put_u64_le(maximum.unwrap_or(0));
    output.freeze()
}

/// Decodes an answer of `max_position` or `seal`: the maximum position, or `None` if the object has
/// no position.
///
/// # Errors
/// `Corrupt` for an answer of another form, here and in the functions below. Then the class is not
/// one of nacre's log classes, or it has a bug.
pub(super) fn decode_maximum(output: Bytes) -> Result<Option<u64>> {
    let mut decoder = Decoder::new(output);
    let parse = |decoder: &mut Decoder| {
        let exists = decoder.u8()? != 0;
        let position = decoder.position()?;
        Ok(exists.then_some(position))
    };
    let maximum = parse(&mut decoder).map_err(unexpected)?;
    decoder.finish().map_err(unexpected)?;
    Ok(maximum)
}

/// Encodes the output of a batch: empty if every operation succeeded. After a call that changes an
/// object, an OSD returns only a short reply, and an empty reply always fits.
pub(super) fn encode_statuses(statuses: &[Status]) -> Bytes {
    if statuses.iter().all(|status| *status == 0) {
        return Bytes::new();
    }
    statuses.iter().flat_map(|status| status.to_le_bytes()).collect()
}

/// The statuses that `write_batch` or `fill_batch` answered, one an entry.
pub(super) fn decode_statuses(output: Bytes, count: usize) -> Result<Vec<Status>> {
    if output.is_empty() {
        return Ok(vec![0; count]);
    }
    let mut decoder = Decoder::new(output);
    let statuses: Decoded<Vec<_>> = (0..count).map(|_| decoder.i32()).collect();
    decoder.finish().map_err(unexpected)?;
    statuses.map_err(unexpected)
}

/// Decodes an answer of `read_batch`: the states of the first of `asked` positions, at least one.
pub(super) fn decode_states(output: Bytes, asked: usize) -> Result<Vec<EntryState>> {
    let mut decoder = Decoder::new(output);
    let mut states = Vec::with_capacity(asked);
    while !decoder.is_empty() {
        states.push(EntryState::decode(&mut decoder).map_err(unexpected)?);
    }
    if states.len() > asked || (states.is_empty() && asked > 0) {
        return Err(unexpected(Undecodable));
    }
    Ok(states)
}

fn unexpected(_: Undecodable) -> Error {
    Error::corrupt("the answer of the log's class cannot be decoded")
        .hint("check that the log's class is the one of the standard library: see it with `nacre log stat`")
}
