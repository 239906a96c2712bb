//! Checks of the bounds in [`crate::limits`], which every implementation of [`crate::ObjectView`]
//! makes.
//!
//! Reads check names and keys as writes do. So a call that can never work fails in the same way on
//! every engine.

use crate::limits::{
    MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTE_VALUE_BYTES, MAX_ATTRIBUTES, MAX_MAP_KEY_BYTES,
    MAX_MAP_VALUE_BYTES, MAX_OBJECT_BYTES, MAX_OPS, MAX_REQUEST_BYTES, MAX_REQUEST_KEYS,
    MAX_TRANSACTION_BYTES,
};
use crate::{Error, Op, Result};

/// Checks that these ops may be one transaction.
///
/// # Errors
/// `Invalid` if there are none, more than `MAX_OPS`, or more than `MAX_REQUEST_KEYS` or
/// `MAX_REQUEST_BYTES`.
pub fn check_ops(ops: &[Op]) -> Result<()> {
    if ops.is_empty() || ops.len() > MAX_OPS {
        let text = format!("a transaction cannot have {} ops", ops.len());
        return Err(Error::invalid(text).hint(format!("send 1 to {MAX_OPS} ops")));
    }
    let keys: usize = ops.iter().map(Op::key_count).sum();
    if keys > MAX_REQUEST_KEYS {
        return Err(Error::invalid(format!("a transaction cannot name {keys} map keys"))
            .hint(format!("split it: at most {MAX_REQUEST_KEYS} keys fit")));
    }
    let payload: usize = ops.iter().map(Op::payload_bytes).sum();
    if payload > MAX_REQUEST_BYTES {
        return Err(Error::invalid(format!("a transaction of {payload} bytes is too large"))
            .hint(format!("split it: at most {MAX_REQUEST_BYTES} bytes fit")));
    }
    Ok(())
}

/// Checks a key of a map. A reader gets the next page of a map by the last key that it has, and an
/// empty key means the first page. So no entry may have the empty key.
///
/// # Errors
/// `Invalid` unless it has 1 to `MAX_MAP_KEY_BYTES` bytes.
pub fn check_map_key(key: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > MAX_MAP_KEY_BYTES {
        return Err(Error::invalid(format!("a map key cannot have {} bytes", key.len()))
            .hint(format!("use 1 to {MAX_MAP_KEY_BYTES} bytes")));
    }
    Ok(())
}

/// Checks the bounds of a map range, each of which may be empty.
///
/// # Errors
/// `Invalid` if a bound is longer than a key can be.
pub fn check_map_range(after: &[u8], prefix: &[u8]) -> Result<()> {
    let longest = after.len().max(prefix.len());
    if longest > MAX_MAP_KEY_BYTES {
        return Err(Error::invalid(format!("the bound of a range cannot have {longest} bytes"))
            .hint(format!("use at most {MAX_MAP_KEY_BYTES} bytes, as for a key")));
    }
    Ok(())
}

/// Checks a value of a map, or its header.
///
/// # Errors
/// `Invalid` if it is longer than `MAX_MAP_VALUE_BYTES`.
pub fn check_map_value(value: &[u8]) -> Result<()> {
    if value.len() > MAX_MAP_VALUE_BYTES {
        return Err(Error::invalid(format!("a map value of {} bytes is too large", value.len()))
            .hint(format!(
                "use at most {MAX_MAP_VALUE_BYTES} bytes, or put it into the byte stream"
            )));
    }
    Ok(())
}

/// Checks an attribute's name.
///
/// # Errors
/// `Invalid` unless it has 1 to `MAX_ATTRIBUTE_NAME_BYTES` bytes and no NUL.
pub fn check_attribute_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_ATTRIBUTE_NAME_BYTES || name.contains('\0') {
        let text = format!("an attribute cannot be named {name:?} ({} bytes)", name.len());
        return Err(Error::invalid(text)
            .hint(format!("use 1 to {MAX_ATTRIBUTE_NAME_BYTES} bytes of UTF-8 without NUL")));
    }
    Ok(())
}

/// Checks an attribute's value.
///
/// # Errors
/// `Invalid` past `MAX_ATTRIBUTE_VALUE_BYTES`.
pub fn check_attribute_value(value: &[u8]) -> Result<()> {
    if value.len() > MAX_ATTRIBUTE_VALUE_BYTES {
        return Err(Error::invalid(format!(
            "an attribute value of {} bytes is too large",
            value.len()
        ))
        .hint(format!("use at most {MAX_ATTRIBUTE_VALUE_BYTES} bytes")));
    }
    Ok(())
}

/// Checks the number of attributes that an object would have.
///
/// # Errors
/// `Exhausted` if there are more than `MAX_ATTRIBUTES`.
pub fn check_attribute_count(count: usize) -> Result<()> {
    if count > MAX_ATTRIBUTES {
        return Err(Error::exhausted(format!("an object cannot have {count} attributes"))
            .hint(format!("use at most {MAX_ATTRIBUTES}, or use the object's map")));
    }
    Ok(())
}

/// Returns where `length` bytes at `offset` end.
///
/// # Errors
/// `Exhausted` past `MAX_OBJECT_BYTES`.
pub fn check_stream_end(offset: u64, length: u64) -> Result<u64> {
    let end = offset.saturating_add(length);
    if end > MAX_OBJECT_BYTES {
        return Err(Error::exhausted(format!("a byte stream of {end} bytes is too long"))
            .hint(format!("use several objects: one holds at most {MAX_OBJECT_BYTES} bytes")));
    }
    Ok(end)
}

/// Checks how many bytes a transaction writes: stream data, keys, values and names.
///
/// # Errors
/// `Exhausted` if there are more than `MAX_TRANSACTION_BYTES`.
pub fn check_transaction_bytes(bytes: usize) -> Result<()> {
    if bytes > MAX_TRANSACTION_BYTES {
        return Err(Error::exhausted(format!("the transaction writes too much: {bytes} bytes"))
            .hint(format!("split it: at most {MAX_TRANSACTION_BYTES} bytes fit")));
    }
    Ok(())
}
