//! Host functions for map entries with numeric keys. The script passes the number, and the function
//! makes the key outside of the VM. This saves a VM string for each call; an append to a log makes
//! two such calls.
//!
//! The key of a number from 0 on is a prefix, `p` and fourteen hexadecimal digits. The key of a
//! negative number is the prefix, `m` and the digits of the number plus 2^53. So keys sort as
//! numbers do.

use bytes::Bytes;
use mlua::{LuaString, Value};
use nacre_script::{QuickAnswer, QuickArguments, ShortText};

use crate::arguments::{Arguments, whole};
use crate::calling::{read, write};
use crate::extensions::{HEX_DIGITS, data, hex_digits, set_with_rest};
use crate::objclass::{Library, if_present};

/// What is added to a number below 0.
const NEGATIVE_OFFSET: i64 = 1 << 53;

pub(crate) fn add(library: &Library<'_>) -> mlua::Result<()> {
    library.add_quick(
        "map_get_int",
        quick_get,
        |arguments, (prefix, number): (Value, Value)| {
            let key = key_of(arguments, &prefix, &number)?;
            let value = read(|view| if_present(view, |view| view.map_get(&key)))?;
            value.map(|value| arguments.lua.create_string(&value)).transpose()
        },
    )?;
    library.add_quick("map_set_int", quick_set, |arguments, given: (Value, Value, Value)| {
        let (prefix, number, value) = given;
        let key = key_of(arguments, &prefix, &number)?;
        let value = data(arguments, 3, &value)?;
        write(|view| view.map_set(&key, value))
    })?;
    library.add_quick("map_set_int_rest", quick_set_rest, |arguments, given| {
        let (prefix, number, first, from): (Value, Value, Value, Value) = given;
        let key = key_of(arguments, &prefix, &number)?;
        let first = data(arguments, 3, &first)?;
        let from = arguments.size(4, &from)?;
        set_with_rest(&key, &first, true, usize::try_from(from).unwrap_or(usize::MAX))
    })
}

fn quick_get(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let Some(key) = quick_key(arguments) else { return Ok(QuickAnswer::Pass) };
    let value = read(|view| if_present(view, |view| view.map_get(key.as_bytes())))?;
    Ok(value.map_or(QuickAnswer::Nil, QuickAnswer::Text))
}

fn quick_set(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let (Some(key), Some(value)) = (quick_key(arguments), arguments.text(3)) else {
        return Ok(QuickAnswer::Pass);
    };
    write(|view| view.map_set(key.as_bytes(), Bytes::copy_from_slice(value)))?;
    Ok(QuickAnswer::Done)
}

fn quick_set_rest(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let from = arguments.number(4).and_then(whole).and_then(|from| usize::try_from(from).ok());
    let (Some(key), Some(first), Some(from)) = (quick_key(arguments), arguments.text(3), from)
    else {
        return Ok(QuickAnswer::Pass);
    };
    set_with_rest(key.as_bytes(), first, true, from)?;
    Ok(QuickAnswer::Done)
}

/// The key that the first two arguments are, if the prefix is a short text.
fn quick_key(arguments: &QuickArguments<'_>) -> Option<ShortText> {
    ShortText::of(arguments.text(1)?, &behind_prefix(arguments.number(2).and_then(whole)?))
}

/// The key that the first two arguments are.
fn key_of(arguments: Arguments<'_>, prefix: &Value, number: &Value) -> mlua::Result<Vec<u8>> {
    let (prefix, number): (LuaString, _) =
        (arguments.text(1, prefix)?, arguments.integer(2, number)?);
    Ok([&prefix.as_bytes(), &behind_prefix(number)[..]].concat())
}

fn behind_prefix(number: i64) -> [u8; 1 + HEX_DIGITS] {
    let (sign, digits) = match u64::try_from(number) {
        Ok(number) => (b'p', hex_digits(number)),
        Err(_) => (b'm', hex_digits((number + NEGATIVE_OFFSET) as u64)),
    };
    let mut behind = [sign; 1 + HEX_DIGITS];
    behind[1..].copy_from_slice(&digits);
    behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers_do() {
        let numbers = [1 - NEGATIVE_OFFSET, -256, -1, 0, 1, 255, 256, NEGATIVE_OFFSET - 1];
        let keys = numbers.map(behind_prefix);
        assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
        assert_eq!(&behind_prefix(255), b"p000000000000ff");
        assert_eq!(&behind_prefix(-1), b"m1fffffffffffff");
    }
}
