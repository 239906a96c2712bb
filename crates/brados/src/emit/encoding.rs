//! Emits the encoding of rows as map keys, as stored values, and in requests and replies. Keys sort
//! like the columns of their rows. The functions take Lua expressions for the columns and return
//! Lua code.

use super::pack::pack;
use super::runtime::Runtime;
use nacre_calls::{Base, Type};

/// A Lua expression and the type of its value.
pub(super) type Typed = (String, Type);

/// A Lua string of these bytes.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Use three digits, so that a digit after the escape is not read as a part of it.
            other => text.push_str(&format!("\\{other:03}")),
        }
    }
    text.push('"');
    text
}

/// Returns the key of a row with these columns. If `is_whole` is false, `columns` are only the
/// first columns of a key, and the result is the beginning of the key.
///
/// Numbers have a fixed length. A string that is not the last column ends in a byte that is less
/// than any other byte. So keys sort like rows, column by column. No key has a zero byte, because
/// stock `cls_lua` would cut the key there.
pub(super) fn key(runtime: &mut Runtime, columns: &[Typed], is_whole: bool) -> String {
    let parts: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(at, (expr, ty))| {
            let is_last = is_whole && at + 1 == columns.len();
            let encode = match ty.base {
                Base::Int => "key_int",
                Base::Bool => "key_bool",
                Base::String | Base::Bytes if is_last => "key_last",
                Base::String | Base::Bytes => "key_text",
            };
            match (ty.may_be_nil, encode) {
                (false, encode) => format!("{}({expr})", runtime.need(encode)),
                (true, encode) => {
                    format!("{}({expr}, {})", runtime.need("key_nil"), runtime.need(encode))
                }
            }
        })
        .collect();
    if parts.is_empty() { "\"\"".to_owned() } else { parts.join(" .. ") }
}

/// The whole key of a row that a method looks up or writes. The returned Lua expression may be used
/// several times.
pub(super) fn row_key(runtime: &mut Runtime, columns: &[Typed]) -> String {
    match columns {
        [(expr, Type { base: Base::Int, may_be_nil: false })] => {
            format!("{}(object, {expr})", runtime.need("number_key"))
        }
        columns => key(runtime, columns, true),
    }
}

/// The function that reads a column from a key.
pub(super) fn column_reader(runtime: &mut Runtime, ty: Type, is_last: bool) -> &'static str {
    runtime.need(match ty.base {
        Base::Int => "column_int",
        Base::Bool => "column_bool",
        Base::String | Base::Bytes if is_last => "column_last",
        Base::String | Base::Bytes => "column_text",
    })
}

/// The format of stored columns, for `string.pack`.
pub(crate) fn format(types: impl IntoIterator<Item = Type>) -> String {
    types
        .into_iter()
        .map(|ty| {
            let present = if ty.may_be_nil && ty.base != Base::Bool { "B" } else { "" };
            format!(
                "{present}{}",
                match ty.base {
                    Base::Int => "i8",
                    Base::Bool => "B",
                    Base::String | Base::Bytes => "s4",
                }
            )
        })
        .collect()
}

/// How many values of the format a column takes.
fn slots(ty: Type) -> usize {
    if ty.may_be_nil && ty.base != Base::Bool { 2 } else { 1 }
}

/// The values that stand for a missing column.
pub(crate) fn blank(ty: Type) -> Vec<String> {
    let value = if matches!(ty.base, Base::String | Base::Bytes) { "\"\"" } else { "0" };
    let mut blank = vec![value.to_owned()];
    if slots(ty) == 2 {
        blank.insert(0, "0".to_owned());
    }
    blank
}

/// The values of a column's slots.
pub(super) fn packed((expr, ty): &Typed) -> Vec<String> {
    let blank = &blank(*ty)[slots(*ty) - 1];
    match (ty.base, ty.may_be_nil) {
        (Base::Bool, true) => vec![format!("({expr} == nil and 2 or {expr} and 1 or 0)")],
        (Base::Bool, false) => vec![format!("({expr} and 1 or 0)")],
        (_, true) => vec![format!("({expr} == nil and 0 or 1)"), format!("({expr} or {blank})")],
        (_, false) => vec![expr.clone()],
    }
}

/// A column from the values of its slots.
fn unpacked(runtime: &mut Runtime, ty: Type, slots: &[String]) -> String {
    match (ty.base, ty.may_be_nil) {
        (Base::Bool, true) => format!("{}({})", runtime.need("bool_or_nil"), slots[0]),
        (Base::Bool, false) => format!("({} == 1)", slots[0]),
        (_, true) => format!("({} == 1 and {} or nil)", slots[0], slots[1]),
        (_, false) => slots[0].clone(),
    }
}

/// How many values of the format some columns take.
pub(super) fn slot_count(types: &[Type]) -> usize {
    types.iter().map(|ty| slots(*ty)).sum()
}

/// Columns from the values of all their slots, in order.
pub(super) fn all_unpacked(
    runtime: &mut Runtime,
    types: &[Type],
    values: &[String],
) -> Vec<String> {
    let mut rest = values;
    let column = |ty: &Type| {
        let (own, others) = rest.split_at(slots(*ty));
        rest = others;
        unpacked(runtime, *ty, own)
    };
    types.iter().map(column).collect()
}

/// If the last column is a string that is never nil, returns the columns before it and this column.
pub(super) fn ends_in_text(columns: &[Typed]) -> Option<(&[Typed], &Typed)> {
    let (last, before) = columns.split_last()?;
    let is_text = matches!(last.1.base, Base::String | Base::Bytes) && !last.1.may_be_nil;
    is_text.then_some((before, last))
}

/// How a value of this type is marked in a reply.
pub(super) fn tag(base: Base) -> char {
    match base {
        Base::Int => 'i',
        Base::String => 's',
        Base::Bytes => 'b',
        Base::Bool => 't',
    }
}

/// The bytes of a row in a reply.
pub(super) fn said(runtime: &mut Runtime, columns: &[Typed]) -> String {
    said_behind(runtime, b"", columns)
}

/// The same behind some other bytes.
pub(super) fn said_behind(runtime: &mut Runtime, head: &[u8], columns: &[Typed]) -> String {
    let is_plain = |(_, ty): &Typed| ty.base != Base::Bool && !ty.may_be_nil;
    let mut parts: Vec<String> = vec![];
    // The call that packs plain columns also packs the bytes before them.
    let mut head = match columns.first() {
        Some(first) if is_plain(first) => head,
        _ if head.is_empty() => head,
        _ => {
            parts.push(quoted(head));
            b""
        }
    };
    let mut plain: Vec<&Typed> = vec![];
    for column in columns {
        if is_plain(column) {
            plain.push(column);
            continue;
        }
        parts.extend(said_plain(std::mem::take(&mut head), &std::mem::take(&mut plain)));
        let (expr, ty) = column;
        parts.push(match ty.base {
            Base::Bool => format!("{}({expr})", runtime.need("say_bool")),
            base => {
                let say = runtime.need("say_nil");
                format!("{say}({expr}, \"<c1{}\", \"{}\")", width(base), tag(base))
            }
        });
    }
    parts.extend(said_plain(head, &plain));
    if parts.is_empty() { "\"\"".to_owned() } else { parts.join(" .. ") }
}

/// Packs some bytes, and after them columns that are never nil, by one call.
fn said_plain(head: &[u8], columns: &[&Typed]) -> Option<String> {
    let (first, others) = columns.split_first()?;
    let tagged = |head: &[u8], (expr, ty): &Typed| {
        let tagged = [head, &[tag(ty.base) as u8]].concat();
        let format = format!("c{}{}", tagged.len(), width(ty.base));
        (format, [quoted(&tagged), expr.clone()])
    };
    let columns = std::iter::once(tagged(head, first));
    let columns = columns.chain(others.iter().map(|column| tagged(b"", column)));
    let (formats, values): (Vec<_>, Vec<_>) = columns.unzip();
    Some(pack(&formats.concat(), &values.concat()))
}

fn width(base: Base) -> &'static str {
    if base == Base::Int { "i8" } else { "s4" }
}
