//! Encodes requests and decodes replies, for callers of a Brados class.
//!
//! A value is a letter and its content: `n` nil, `t` true, `f` false, `i` a number (eight bytes,
//! little-endian, signed), `s` a string or `b` bytes (length in four bytes, little-endian, then the
//! bytes). A request is the values of its row; strings and bytes both use `s`. A reply has a part
//! for each output that has rows. A part is the length of the output's name (one byte), the name,
//! the number of columns (one byte), the number of rows (four bytes, little-endian), and the values
//! row by row in the order of keys.

use std::fmt;

use crate::value::Value;
use crate::{MAX_COLUMNS, MAX_INTEGER};

/// The rows of an output.
pub type OutputRows = (String, Vec<Vec<Value>>);

/// Bytes that are no reply, or no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are neither a request of a Brados class nor a reply of one")
    }
}

impl std::error::Error for Undecodable {}

/// The request of a row.
pub fn encode_request(row: &[Value]) -> Vec<u8> {
    let mut bytes = vec![];
    for value in row {
        match value {
            Value::Nil => bytes.push(b'n'),
            Value::Bool(value) => bytes.push(if *value { b't' } else { b'f' }),
            Value::Int(value) => push_int(&mut bytes, *value),
            Value::Bytes(text) => push_text(&mut bytes, text),
        }
    }
    bytes
}

/// Appends the encoded request of a row to `bytes`. The row has these numbers, and then the string
/// `text` if it is given. Copies the string only once.
pub fn put_request(bytes: &mut Vec<u8>, numbers: &[i64], text: Option<&[u8]>) {
    numbers.iter().for_each(|number| push_int(bytes, *number));
    text.into_iter().for_each(|text| push_text(bytes, text));
}

fn push_int(bytes: &mut Vec<u8>, value: i64) {
    bytes.push(b'i');
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn push_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.push(b's');
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text);
}

/// The row of a request.
///
/// # Errors
/// If the bytes are no request.
pub fn decode_request(bytes: &[u8]) -> Result<Vec<Value>, Undecodable> {
    let mut rest = bytes;
    let mut row = vec![];
    while !rest.is_empty() {
        if row.len() == MAX_COLUMNS {
            return Err(Undecodable);
        }
        row.push(decode_value(&mut rest)?);
    }
    Ok(row)
}

/// Reads a request without copying its strings. `columns` has an `i` for each number and an `s` for
/// each string. Calls `read` with each number and with the length of each string.
///
/// # Errors
/// If the bytes are not a request with these columns. `read` may have been called for some values
/// then.
pub fn read_request(
    bytes: &[u8],
    columns: &[u8],
    mut read: impl FnMut(i64),
) -> Result<(), Undecodable> {
    let mut rest = bytes;
    for column in columns {
        let [tag] = take(&mut rest)?;
        read(match (column, tag) {
            (b'i', b'i') => take_int(&mut rest)?,
            (b's', b's') => take_text(&mut rest)?.len() as i64,
            _ => return Err(Undecodable),
        });
    }
    if rest.is_empty() { Ok(()) } else { Err(Undecodable) }
}

/// The outputs of a reply that have rows.
///
/// # Errors
/// If the bytes are no reply.
pub fn decode_reply(bytes: &[u8]) -> Result<Vec<OutputRows>, Undecodable> {
    let mut rest = bytes;
    let mut outputs = vec![];
    while !rest.is_empty() {
        let [length] = take(&mut rest)?;
        let name = take_slice(&mut rest, usize::from(length))?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| Undecodable)?;
        let [width] = take(&mut rest)?;
        let count = u32::from_le_bytes(take(&mut rest)?);
        let mut rows = vec![];
        for _ in 0..count {
            // Rows without columns take no bytes: there is one such row at most.
            if width == 0 && !rows.is_empty() {
                return Err(Undecodable);
            }
            rows.push((0..width).map(|_| decode_value(&mut rest)).collect::<Result<_, _>>()?);
        }
        outputs.push((name, rows));
    }
    Ok(outputs)
}

fn decode_value(rest: &mut &[u8]) -> Result<Value, Undecodable> {
    let [tag] = take(rest)?;
    Ok(match tag {
        b'n' => Value::Nil,
        b't' => Value::Bool(true),
        b'f' => Value::Bool(false),
        b'i' => Value::Int(take_int(rest)?),
        b's' | b'b' => Value::Bytes(take_text(rest)?.to_vec()),
        _ => return Err(Undecodable),
    })
}

fn take_int(rest: &mut &[u8]) -> Result<i64, Undecodable> {
    let number = i64::from_le_bytes(take(rest)?);
    let is_exact = number.unsigned_abs() <= MAX_INTEGER.unsigned_abs();
    is_exact.then_some(number).ok_or(Undecodable)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Undecodable> {
    let length = u32::from_le_bytes(take(rest)?);
    take_slice(rest, length as usize)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Undecodable> {
    let (first, others) = rest.split_first_chunk().ok_or(Undecodable)?;
    *rest = others;
    Ok(*first)
}

fn take_slice<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Undecodable> {
    let (first, others) = rest.split_at_checked(length).ok_or(Undecodable)?;
    *rest = others;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: i64 = MAX_INTEGER + 1;

    fn request(row: &[Value]) -> Vec<u8> {
        encode_request(row)
    }

    fn text(text: &str) -> Value {
        Value::Bytes(text.into())
    }

    fn read(bytes: &[u8], columns: &[u8]) -> Option<Vec<i64>> {
        let mut numbers = vec![];
        read_request(bytes, columns, |number| numbers.push(number)).ok().map(|()| numbers)
    }

    #[test]
    fn numbers_and_the_lengths_of_strings_are_read() {
        let row = request(&[Value::Int(7), Value::Int(1 - END), text("abc")]);
        assert_eq!(read(&row, b"iis"), Some(vec![7, 1 - END, 3]));
        assert_eq!(read(&request(&[text(""), Value::Int(END - 1)]), b"si"), Some(vec![0, END - 1]));
        assert_eq!(read(b"", b""), Some(vec![]));
    }

    #[test]
    fn a_request_of_other_columns_is_refused() {
        let row = request(&[Value::Int(7), text("abc")]);
        for length in 0..row.len() {
            assert_eq!(read(&row[..length], b"is"), None, "{length} bytes");
        }
        let mut past_the_end = request(&[Value::Int(0)]);
        past_the_end[1..].copy_from_slice(&END.to_le_bytes());
        let mut least = past_the_end.clone();
        least[1..].copy_from_slice(&i64::MIN.to_le_bytes());
        let longer = [&row[..], b"x"].concat();
        for (bytes, columns) in [
            (&longer, &b"is"[..]),
            (&row, b"ii"),
            (&row, b"i"),
            (&row, b"iss"),
            (&row, b"i?"),
            (&request(&[Value::Nil]), b"i"),
            (&past_the_end, b"i"),
            (&least, b"i"),
        ] {
            assert_eq!(read(bytes, columns), None, "{bytes:?} as {columns:?}");
        }
    }
}
