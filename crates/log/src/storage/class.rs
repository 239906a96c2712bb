//! The native class.

use bytes::{Bytes, BytesMut};
use nacre_object::{
    CallContext, CallReply, ClassName, Error, ErrorKind, ObjectView, Result, Status,
};
use nacre_object::{MethodAccess, NativeClass};

use super::NATIVE_CLASS;
use super::entry::{EntryState, KEY_PREFIX, MAX_ENTRY_BYTES, key, position_of};
use super::header::ObjectHeader;
use super::packed::{
    decode_epoch, decode_fill_batch, decode_position, decode_read_batch, decode_write,
    decode_write_batch, encode_maximum, encode_statuses,
};
use super::status::{EINVAL, EIO, ENODATA, ENOENT, ERANGE, EROFS, ESPIPE};
use crate::codec::Undecodable;

/// The most entries that one call removes. A trim of a million entries therefore takes many short
/// calls.
const RECLAIM_ENTRIES: usize = 256;

/// The storage interface as a native class, named [`NATIVE_CLASS`].
pub fn log_class() -> NativeClass {
    use MethodAccess::{ReadOnly, ReadWrite};
    NativeClass::new(ClassName::new(NATIVE_CLASS).expect("a literal"))
        .brief()
        .method("seal", ReadWrite, seal)
        .method("max_position", ReadOnly, max_position)
        .method("read", ReadOnly, read)
        .method("read_batch", ReadOnly, read_batch)
        .method("write", ReadWrite, write)
        .method("write_batch", ReadWrite, write_batch)
        .method("fill", ReadWrite, fill)
        .method("fill_batch", ReadWrite, fill_batch)
        .method("trim", ReadWrite, trim)
        .method("trim_to", ReadWrite, trim_to)
}

fn seal(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let epoch = decode_epoch(input).map_err(undecodable)?;
    check_epoch(epoch)?;
    let mut header = match stored_header(view)? {
        Some(header) if epoch <= header.epoch => return Err(stale(epoch, header.epoch)),
        Some(header) => ObjectHeader { epoch, ..header },
        None => ObjectHeader::sealed_at(epoch),
    };
    view.set_map_header(header.encode())?;
    let maximum = maximum(view, &header)?;
    reclaim(view, &mut header)?;
    Ok(output(encode_maximum(maximum)))
}

fn max_position(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    if !input.is_empty() {
        return Err(undecodable(Undecodable));
    }
    let header = sealed_header(view)?;
    Ok(output(encode_maximum(maximum(view, &header)?)))
}

fn read(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, position) = decode_position(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    match state(view, &header, position)? {
        EntryState::Data(data) => Ok(output(data)),
        EntryState::Unwritten => Err(refusal(ERANGE, format!("{position} is unwritten"))),
        EntryState::Filled => Err(refusal(ENODATA, format!("{position} is filled"))),
        EntryState::Trimmed => Err(refusal(ENODATA, format!("{position} is trimmed"))),
        EntryState::Damaged => Err(damaged(position)),
    }
}

fn read_batch(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, byte_limit, positions) = decode_read_batch(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    let mut states = BytesMut::new();
    for position in positions {
        state(view, &header, position)?.encode(&mut states);
        if states.len() >= byte_limit {
            break;
        }
    }
    Ok(output(states.freeze()))
}

fn write(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, position, data) = decode_write(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    settle(write_entry(view, &header, position, &data)?, position)
}

fn write_batch(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, entries) = decode_write_batch(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    let mut statuses = Vec::with_capacity(entries.len());
    for (position, data) in entries {
        statuses.push(write_entry(view, &header, position, &data)?);
    }
    Ok(output(encode_statuses(&statuses)))
}

fn write_entry(
    view: &mut dyn ObjectView,
    header: &ObjectHeader,
    position: u64,
    data: &[u8],
) -> Result<Status> {
    if data.len() > MAX_ENTRY_BYTES {
        return Ok(EINVAL);
    }
    if position < header.trim_end {
        return Ok(EROFS);
    }
    let key = key(position);
    if view.map_get(&key)?.is_some() {
        return Ok(EROFS);
    }
    view.map_set(&key, EntryState::value_of_data(data))?;
    Ok(0)
}

fn fill(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, position) = decode_position(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    settle(fill_entry(view, &header, position)?, position)
}

fn fill_batch(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, positions) = decode_fill_batch(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    let mut statuses = Vec::with_capacity(positions.len());
    for position in positions {
        statuses.push(fill_entry(view, &header, position)?);
    }
    Ok(output(encode_statuses(&statuses)))
}

fn fill_entry(view: &mut dyn ObjectView, header: &ObjectHeader, position: u64) -> Result<Status> {
    Ok(match state(view, header, position)? {
        EntryState::Unwritten => {
            view.map_set(&key(position), EntryState::FILLED_VALUE)?;
            0
        }
        EntryState::Filled | EntryState::Trimmed => 0,
        EntryState::Data(_) => EROFS,
        EntryState::Damaged => EIO,
    })
}

fn trim(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, position) = decode_position(input).map_err(undecodable)?;
    let header = guard(view, epoch)?;
    if position >= header.trim_end {
        view.map_set(&key(position), EntryState::TRIMMED_VALUE)?;
    }
    Ok(CallReply::default())
}

fn trim_to(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let (epoch, position) = decode_position(input).map_err(undecodable)?;
    let mut header = guard(view, epoch)?;
    if position >= header.trim_end {
        header.trim_end = position + 1;
        view.set_map_header(header.encode())?;
    }
    reclaim(view, &mut header)?;
    let is_left = u8::from(header.reclaim_end < header.trim_end);
    Ok(output(Bytes::copy_from_slice(&[is_left])))
}

/// Removes some of the entries below the trim end, and records in the header how far it has come.
fn reclaim(view: &mut dyn ObjectView, header: &mut ObjectHeader) -> Result<()> {
    if header.reclaim_end >= header.trim_end {
        return Ok(());
    }
    let after = match header.reclaim_end {
        0 => KEY_PREFIX.to_vec(),
        end => key(end - 1).to_vec(),
    };
    let range = view.map_range(&after, KEY_PREFIX, RECLAIM_ENTRIES)?;
    header.reclaim_end = header.trim_end;
    for entry in &range.entries {
        let Some(position) = position_of(&entry.key) else { continue };
        if position >= header.trim_end {
            header.reclaim_end = header.trim_end;
            break;
        }
        view.map_remove(&entry.key)?;
        if range.more {
            header.reclaim_end = position + 1;
        }
    }
    view.set_map_header(header.encode())
}

/// What a position holds, with the trim limit taken into account.
fn state(view: &mut dyn ObjectView, header: &ObjectHeader, position: u64) -> Result<EntryState> {
    if position < header.trim_end {
        return Ok(EntryState::Trimmed);
    }
    let value = view.map_get(&key(position))?;
    Ok(value.map_or(EntryState::Unwritten, |value| EntryState::of_value(&value)))
}

fn maximum(view: &mut dyn ObjectView, header: &ObjectHeader) -> Result<Option<u64>> {
    let last = match view.map_last(KEY_PREFIX)? {
        Some(entry) => Some(position_of(&entry.key).ok_or_else(foreign_key)?),
        None => None,
    };
    Ok(last.max(header.trim_end.checked_sub(1)))
}

/// The header, if the operation's epoch passes it.
fn guard(view: &mut dyn ObjectView, epoch: u64) -> Result<ObjectHeader> {
    check_epoch(epoch)?;
    let header = sealed_header(view)?;
    if epoch < header.epoch { Err(stale(epoch, header.epoch)) } else { Ok(header) }
}

fn sealed_header(view: &mut dyn ObjectView) -> Result<ObjectHeader> {
    stored_header(view)?.ok_or_else(|| refusal(ENOENT, "the object was never sealed"))
}

/// The header; `None` if there is no object.
fn stored_header(view: &mut dyn ObjectView) -> Result<Option<ObjectHeader>> {
    match view.map_header() {
        Ok(encoded) => ObjectHeader::decode(encoded).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn check_epoch(epoch: u64) -> Result<()> {
    if epoch == 0 { Err(refusal(EINVAL, "epochs start at 1")) } else { Ok(()) }
}

fn settle(status: Status, position: u64) -> Result<CallReply> {
    match status {
        0 => Ok(CallReply::default()),
        EROFS => Err(refusal(EROFS, format!("{position} is taken"))),
        EINVAL => Err(refusal(EINVAL, format!("an entry holds at most {MAX_ENTRY_BYTES} bytes"))),
        _ => Err(damaged(position)),
    }
}

fn output(output: Bytes) -> CallReply {
    CallReply { status: 0, output }
}

fn refusal(status: Status, message: impl Into<String>) -> Error {
    Error::from_status(status, message)
}

fn stale(epoch: u64, sealed: u64) -> Error {
    refusal(ESPIPE, format!("epoch {epoch}, but the object is sealed at {sealed}"))
}

fn undecodable(_: Undecodable) -> Error {
    refusal(EINVAL, "the input cannot be decoded")
}

fn damaged(position: u64) -> Error {
    Error::corrupt(format!("the log's entry at position {position} is damaged"))
        .with_status(EIO)
        .hint("`nacre scrub` says what is damaged; trim the position to skip it")
}

fn foreign_key() -> Error {
    Error::corrupt("the map of the log's object holds a key that is not a position")
        .with_status(EIO)
        .hint("`nacre scrub` says what is damaged")
}
