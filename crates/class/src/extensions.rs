//! The functions that nacre adds to `objclass`. A script that uses none of them also runs on stock
//! `cls_lua`.
//!
//! | call | returns (`–` is nothing) |
//! |---|---|
//! | `register(fn, "readonly")` | –; the method may only read, and may run at the same time as writers; a write fails with `-EPERM` |
//! | `register(fn, access, columns)` | –; only for generated classes: also registers the types of the request's columns (`requests.rs`) |
//! | `exists()` | whether the object exists |
//! | `append(data)` | the offset at which the data was appended |
//! | `truncate(size)`, `zero(offset, length)` | – |
//! | `rmxattr(name)` | –; fails with `-ENODATA` if there is no such attribute |
//! | `map_get(key)` | the value as a bufferlist, or nil if there is no such key or object |
//! | `map_get_str(key)` | the value as a string, or nil |
//! | `map_set(key, data)` | – |
//! | `map_set_parts(key, first, second)` | –; the value is `first` followed by `second` |
//! | `map_set_rest(key, data, from)` | –; the value is `data` followed by the method's input from byte `from` on |
//! | `hex_key(prefix, number)` | the prefix followed by fourteen hexadecimal digits of the number |
//! | `map_get_int(prefix, number)` | like `map_get_str`; the function makes the key from the number (`int_keys.rs`) |
//! | `map_set_int(prefix, number, data)` | –; like `map_set`, with the same key |
//! | `map_set_int_rest(prefix, number, data, from)` | –; like `map_set_rest`, with the same key; the length of the rest (four bytes, little-endian) comes before the rest |
//! | `map_last(prefix)` | the last key with that prefix and its value as a bufferlist, or nil |
//! | `map_range(after, prefix, max)` | a list of keys in order, a list of their values, and whether there are more |
//! | `map_page(after, prefix, max, bytes)` | `{key = bufferlist}` of the next entries; if there are more, also the last key of this page, else nil. A page ends after `max` entries or `bytes` of values, but has at least one entry |
//! | `fail(status, message)` | –; the method fails with this negative status and message |
//! | `now()` | the time of the call in microseconds since 1970 |
//! | `source()` | the name of the authenticated caller |
//!
//! `data` is a bufferlist or a string.

use bytes::{BufMut, Bytes, BytesMut};
use mlua::{LuaString, Table, Value};
use nacre_object::limits::MAX_MAP_RANGE_ENTRIES;
use nacre_object::{Error, ErrorKind, Status};
use nacre_script::{Pulse, QuickAnswer, QuickArguments, ShortText, raise};

use crate::arguments::{Arguments, whole};
use crate::buffer_list::{BufferLists, append_data, data_of};
use crate::calling::{context, read, requests, write};
use crate::errno::ENODATA;
use crate::int_keys;
use crate::objclass::{Library, MAX_LOG_BYTES, for_each_entry, if_present};

/// The digits of a number below 2^53. Scripts have no greater integers.
pub(crate) const HEX_DIGITS: usize = 14;

pub(crate) fn add(library: &Library<'_>) -> mlua::Result<()> {
    add_stream(library)?;
    add_map(library)?;
    library.add("fail", fail)?;
    library.add("now", |_, ()| context(|context| context.now_micros))?;
    library.add("source", |_, ()| context(|context| context.source.to_string()))
}

fn fail(arguments: Arguments<'_>, (status, message): (Value, Value)) -> mlua::Result<()> {
    let status = arguments.integer(1, &status)?;
    let message = arguments.text(2, &message)?;
    let bytes = message.as_bytes();
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_LOG_BYTES)]).into_owned();
    match Status::try_from(status) {
        Ok(status) if status < 0 => Err(raise(Error::from_status(status, shown))),
        _ => Err(mlua::Error::runtime(format!(
            "the status {status} is not negative, so it is no failure"
        ))),
    }
}

pub(crate) fn data(
    arguments: Arguments<'_>,
    position: usize,
    value: &Value,
) -> mlua::Result<Bytes> {
    data_of(value).ok_or_else(|| no_data(arguments, position, value))
}

fn no_data(arguments: Arguments<'_>, position: usize, value: &Value) -> mlua::Error {
    let (function, got) = (arguments.function, value.type_name());
    mlua::Error::runtime(format!(
        "bad argument #{position} to '{function}' (bufferlist or string expected, got {got})"
    ))
}

fn add_stream(library: &Library<'_>) -> mlua::Result<()> {
    library.add("exists", |_, ()| read(|view| view.exists()))?;
    library.add("append", |arguments, bytes: Value| {
        let bytes = data(arguments, 1, &bytes)?;
        write(|view| view.append(bytes))
    })?;
    library.add("truncate", |arguments, size: Value| {
        let size = arguments.size(1, &size)?;
        write(|view| view.truncate(size))
    })?;
    library.add("zero", |arguments, (offset, length): (Value, Value)| {
        let (offset, length) = (arguments.size(1, &offset)?, arguments.size(2, &length)?);
        write(|view| view.zero(offset, length))
    })?;
    library.add("rmxattr", |arguments, name: Value| {
        let name = arguments.name(1, &name)?;
        write(|view| view.remove_attribute(&name).map_err(no_attribute))
    })
}

/// A missing attribute has its own errno, like in `getxattr`.
fn no_attribute(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => error.with_status(-ENODATA),
        _ => error,
    }
}

fn add_map(library: &Library<'_>) -> mlua::Result<()> {
    let lists = library.buffer_lists();
    library.add("map_get", move |arguments, key: Value| {
        let key = arguments.text(1, &key)?;
        let value = read(|view| if_present(view, |view| view.map_get(&key.as_bytes())))?;
        value.map(|value| lists.make(arguments.lua, value)).transpose()
    })?;
    library.add_quick("map_get_str", get_text, |arguments, key: Value| {
        let key = arguments.text(1, &key)?;
        let value = read(|view| if_present(view, |view| view.map_get(&key.as_bytes())))?;
        value.map(|value| arguments.lua.create_string(&value)).transpose()
    })?;
    library.add_quick("map_set", set_text, |arguments, (key, value): (Value, Value)| {
        let key = arguments.text(1, &key)?;
        let value = data(arguments, 2, &value)?;
        write(|view| view.map_set(&key.as_bytes(), value))
    })?;
    library.add("map_set_parts", |arguments, (key, first, second): (Value, Value, Value)| {
        let key = arguments.text(1, &key)?;
        let mut value = BytesMut::new();
        for (position, part) in [(2, first), (3, second)] {
            append_data(&mut value, &part).ok_or_else(|| no_data(arguments, position, &part))?;
        }
        write(|view| view.map_set(&key.as_bytes(), value.freeze()))
    })?;
    library.add_quick(
        "map_set_rest",
        set_rest,
        |arguments, (key, first, from): (Value, Value, Value)| {
            let key = arguments.text(1, &key)?;
            let first = data(arguments, 2, &first)?;
            let from = arguments.size(3, &from)?;
            set_with_rest(
                &key.as_bytes(),
                &first,
                false,
                usize::try_from(from).unwrap_or(usize::MAX),
            )
        },
    )?;
    library.add_quick("hex_key", hex_key, |arguments, (prefix, number): (Value, Value)| {
        let (prefix, number) = (arguments.text(1, &prefix)?, arguments.size(2, &number)?);
        arguments.lua.create_string([&prefix.as_bytes(), &hex_digits(number)[..]].concat())
    })?;
    int_keys::add(library)?;
    let lists = library.buffer_lists();
    library.add("map_last", move |arguments, prefix: Value| {
        let prefix = arguments.text(1, &prefix)?;
        let last = read(|view| if_present(view, |view| view.map_last(&prefix.as_bytes())))?;
        let Some(last) = last else { return Ok((None, None)) };
        let key = arguments.lua.create_string(&last.key)?;
        Ok((Some(key), Some(lists.make(arguments.lua, last.value)?)))
    })?;
    let (lists, pulse) = (library.buffer_lists(), library.host.pulse.clone());
    library.add("map_page", move |arguments, given| map_page(arguments, given, &lists, &pulse))?;
    let (lists, pulse) = (library.buffer_lists(), library.host.pulse.clone());
    library.add("map_range", move |arguments, (after, prefix, most): (Value, Value, Value)| {
        let lua = arguments.lua;
        let (after, prefix) = (arguments.text(1, &after)?, arguments.text(2, &prefix)?);
        let most = arguments.size(3, &most)?;
        let (keys, values) = (lua.create_table()?, lua.create_table()?);
        let (after, prefix) = (after.as_bytes(), prefix.as_bytes());
        let more = for_each_entry(lua, &pulse, &after, &prefix, most, |entry| {
            keys.raw_push(lua.create_string(&entry.key)?)?;
            values.raw_push(lists.make(lua, entry.value)?)
        })?;
        Ok((keys, values, more))
    })
}

/// Returns a page of the map from one read of the object. A read has a bounded size, so only that
/// much is in memory at a time.
fn map_page(
    arguments: Arguments<'_>,
    (after, prefix, most, bytes): (Value, Value, Value, Value),
    lists: &BufferLists,
    pulse: &Pulse,
) -> mlua::Result<(Table, Option<LuaString>)> {
    let lua = arguments.lua;
    pulse.step(lua)?;
    let (after, prefix) = (arguments.text(1, &after)?, arguments.text(2, &prefix)?);
    let most = arguments.size(3, &most)?.clamp(1, MAX_MAP_RANGE_ENTRIES as u64) as usize;
    let bytes = arguments.size(4, &bytes)?;
    let range = read(|view| {
        if_present(view, |view| view.map_range(&after.as_bytes(), &prefix.as_bytes(), most))
    })?;
    let (values, mut entries, mut taken) = (lua.create_table()?, range.entries.into_iter(), 0);
    while let Some(entry) = entries.next() {
        taken += entry.value.len() as u64;
        let key = lua.create_string(&entry.key)?;
        values.raw_set(&key, lists.make(lua, entry.value)?)?;
        if taken >= bytes || entries.len() == 0 {
            let more = range.more || entries.len() > 0;
            return Ok((values, more.then_some(key)));
        }
    }
    Ok((values, None))
}

/// `map_get_str` for a string key.
fn get_text(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let Some(key) = arguments.text(1) else { return Ok(QuickAnswer::Pass) };
    let value = read(|view| if_present(view, |view| view.map_get(key)))?;
    Ok(value.map_or(QuickAnswer::Nil, QuickAnswer::Text))
}

/// `map_set` for strings.
fn set_text(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let (Some(key), Some(value)) = (arguments.text(1), arguments.text(2)) else {
        return Ok(QuickAnswer::Pass);
    };
    write(|view| view.map_set(key, Bytes::copy_from_slice(value)))?;
    Ok(QuickAnswer::Done)
}

/// `map_set_rest` for strings.
fn set_rest(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let from = arguments.number(3).and_then(whole).and_then(|from| usize::try_from(from).ok());
    let (Some(key), Some(first), Some(from)) = (arguments.text(1), arguments.text(2), from) else {
        return Ok(QuickAnswer::Pass);
    };
    set_with_rest(key, first, false, from)?;
    Ok(QuickAnswer::Done)
}

/// Sets a value that consists of two parts: `first`, and the method's input from byte `from` on
/// (counted from 1). If `is_counted`, the length of the second part is stored between them.
pub(crate) fn set_with_rest(
    key: &[u8],
    first: &[u8],
    is_counted: bool,
    from: usize,
) -> mlua::Result<()> {
    let value = requests(|requests| {
        let input = requests.current();
        let rest = input.get(from.saturating_sub(1)..).unwrap_or_default();
        let mut value = BytesMut::with_capacity(first.len() + size_of::<u32>() + rest.len());
        value.extend_from_slice(first);
        if is_counted {
            value.put_u32_le(rest.len() as u32);
        }
        value.extend_from_slice(rest);
        value.freeze()
    })?;
    write(|view| view.map_set(key, value))
}

/// `hex_key` for a short prefix.
fn hex_key(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    let number = arguments.number(2).and_then(whole).and_then(|number| u64::try_from(number).ok());
    let (Some(prefix), Some(number)) = (arguments.text(1), number) else {
        return Ok(QuickAnswer::Pass);
    };
    let key = ShortText::of(prefix, &hex_digits(number));
    Ok(key.map_or(QuickAnswer::Pass, QuickAnswer::Short))
}

/// An exact number has at most this many digits.
pub(crate) fn hex_digits(number: u64) -> [u8; HEX_DIGITS] {
    let digit =
        |at: usize| b"0123456789abcdef"[(number >> (4 * (HEX_DIGITS - 1 - at))) as usize & 0xf];
    std::array::from_fn(digit)
}
