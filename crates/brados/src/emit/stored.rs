//! Emits the functions that read and write stored rows, and defines the keys and values of the map:
//!
//! | key | value |
//! |---|---|
//! | `@brados` | the layout of the object, sixteen characters ([`signature`]); then the packed header, unless the header is elsewhere (`emit/header.rs`) |
//! | `~` and a number, fourteen hexadecimal digits | a message that waits for the application, as a reply of one row |
//! | `>` and such a number | a message that waits for the runtime: its sender (`s1`), then a reply of one row |
//! | `TABLE.` and a row's key | the columns that are not in the key, packed |
//! | `TABLE@` and a row's key | for a row appended to the stream: its location there (`emit/layout.lua`) |
//! | `TABLE#COLUMNS#AGGREGATES.` and a group's key | the number of rows of the group, then the aggregates, packed |
//!
//! Keys sort like their columns ([`super::encoding::key`]). Columns are packed by `string.pack`,
//! little-endian: `i8`, `s4` (length first), booleans `B`. A column that may be nil has a byte
//! before it that says whether it has a value.
//!
//! For each table and stored aggregate the class has a Lua table of functions, and methods reach
//! stored data only through these: `get(object, key)` (the row as it was at the start of the
//! request), `put(object, key, row)`, `row(key, value)` and, for ranges, `prefix` or `page`
//! ([`range`]). This module writes the functions of tables in the map; `emit/place.rs` writes those
//! of other tables.

use super::encoding::{
    self, Typed, all_unpacked, blank, column_reader, packed, quoted, slot_count,
};
use super::layouts::Layouts;
use super::pack::pack;
use super::place;
use super::runtime::Runtime;
use super::writer::Writer;
use crate::hash::fnv1a;
use crate::ir::{CollectionId, Program};
use crate::layout::Layout;
use crate::plan::View;
use crate::syntax::ast::Kind;
use nacre_calls::Type;

/// Sixteen characters that identify a stored format: a hash (FNV-1a) of the format's description.
pub(super) fn signature(program: &Program, views: &[View], layout: &Layout) -> String {
    let mut text = String::from("map 2\n");
    for table in program.of_kind(Kind::Table) {
        let table = program.collection(table);
        text.push_str(&format!("{}[{}]", table.name, table.key_width));
        table.columns.iter().for_each(|column| text.push_str(&format!(" {}", column.ty)));
        text.push('\n');
    }
    for view in views {
        text.push_str(&format!("{}\n", view.name));
    }
    // They count in the header.
    let channels = [
        (program.has_drained_channels(), "drained"),
        (program.has_delivered_channels(), "delivered"),
        (program.has_removal(), "removal"),
    ];
    for (_, kind) in channels.iter().filter(|(is_there, _)| *is_there) {
        text.push_str(&format!("{kind} channels\n"));
    }
    if *layout != Layout::default() {
        text.push_str(&format!("layout {layout}\n"));
    }
    format!("b{:015x}", fnv1a(text.as_bytes()) >> 4)
}

/// The access functions of a table.
pub(super) fn write_table(
    layouts: &Layouts<'_>,
    id: CollectionId,
    name: &str,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let table = layouts.stored.program.collection(id);
    let is_placed = layouts.is_placed(id);
    // Keys of a place need no prefix.
    let prefix = if is_placed { String::new() } else { format!("{}.", table.name) };
    let prefix = quoted(prefix.as_bytes());
    let (first, last) = (table.key_width + 1, table.width());
    out.put(format!(
        "local {name} = {{ name = {}, prefix = {prefix}, first = {first}, last = {last} }}",
        quoted(table.name.as_bytes())
    ));
    let types = table.types();
    if let Some(start) = layouts.stored.header.start(id) {
        return write_header_row(name, start, &types, runtime, out);
    }
    write_row_reader(name, &types, table.key_width, runtime, out);
    let values: Vec<Typed> = (table.key_width..table.width())
        .map(|at| (format!("row[{}]", at + 1), types[at]))
        .collect();
    match is_placed {
        true => {
            let format = encoding::format(values.iter().map(|(_, ty)| *ty));
            place::write_places(layouts, id, name, &format, runtime, out);
            place::write_access(layouts, id, name, &packed_row(&values), out);
        }
        false => {
            let find = format!("{}(stored)", runtime.need("get"));
            write_get(name, &prefix, &find, out);
            write_put(name, &prefix, &values, runtime, out);
        }
    }
}

/// The header fields that hold the row of a table with at most one row: its columns, after a field
/// that says whether the row exists.
pub(super) fn row_fields(start: usize, types: &[Type]) -> Vec<String> {
    (1..=slot_count(types)).map(|slot| format!("object[{}]", start + slot)).collect()
}

/// Writes the functions of a table with at most one row, which is in the header.
fn write_header_row(
    name: &str,
    start: usize,
    types: &[Type],
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let fields = row_fields(start, types);
    let columns = all_unpacked(runtime, types, &fields);
    let of_row = |(at, ty): (usize, &Type)| packed(&(format!("row[{}]", at + 1), *ty));
    let values = types.iter().enumerate().flat_map(of_row);
    let blanks = types.iter().flat_map(|ty| blank(*ty));
    out.open(format!("function {name}.get(object)"));
    out.put(format!("return object[{start}] == 1 and {{ {} }} or nil", columns.join(", ")));
    out.close("end");
    out.open(format!("function {name}.put(object, _, row)"));
    out.put(format!("object[{start}] = row and 1 or 0"));
    for ((field, value), blank) in fields.iter().zip(values).zip(blanks) {
        out.put(format!("{field} = row and {value} or {blank}"));
    }
    out.put("object.is_changed = true");
    out.close("end");
}

/// `name.row(key, value)`: a stored row from its key, without the prefix, and its value.
fn write_row_reader(
    name: &str,
    types: &[Type],
    key_width: usize,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    out.open(format!("function {name}.row(key, value)"));
    let mut columns = read_key(&types[..key_width], runtime, out);
    columns.extend(read_value(&types[key_width..], runtime, out));
    out.put(format!("return {{ {} }}", columns.join(", ")));
    out.close("end");
}

/// Reads the columns of `key`; returns the names they then have.
pub(super) fn read_key(types: &[Type], runtime: &mut Runtime, out: &mut Writer) -> Vec<String> {
    let mut names = vec![];
    for (at, ty) in types.iter().enumerate() {
        let reader = column_reader(runtime, *ty, at + 1 == types.len());
        let position = if at == 0 { "1" } else { "at" };
        let call = match ty.may_be_nil {
            true => format!("{}(key, {position}, {reader})", runtime.need("column_nil")),
            false => format!("{reader}(key, {position})"),
        };
        match at {
            0 => out.put(format!("local k1, at = {call}")),
            _ => {
                out.put(format!("local k{}", at + 1));
                out.put(format!("k{}, at = {call}", at + 1));
            }
        }
        names.push(format!("k{}", at + 1));
    }
    names
}

/// Unpacks `value`; returns what each column is then.
pub(super) fn read_value(types: &[Type], runtime: &mut Runtime, out: &mut Writer) -> Vec<String> {
    if types.is_empty() {
        return vec![];
    }
    runtime.need("names");
    let names: Vec<_> = (1..=slot_count(types)).map(|slot| format!("v{slot}")).collect();
    let format = encoding::format(types.iter().copied());
    out.put(format!("local {} = unpack(\"<{format}\", value)", names.join(", ")));
    all_unpacked(runtime, types, &names)
}

/// Writes `name.get(object, key)`, which returns a stored row, or false or nil if there is no such
/// row. `find` is the Lua code that reads the stored value. A request reads each row at most once.
pub(super) fn write_get(name: &str, prefix: &str, find: &str, out: &mut Writer) {
    out.open(format!("function {name}.get(object, key)"));
    out.put(format!("local stored = {prefix} .. key"));
    out.put("local row = object.known[stored]");
    out.open("if row == nil then");
    out.put(format!("local value = {find}"));
    out.put(format!("row = value and {name}.row(key, value) or false"));
    out.put("object.known[stored] = row");
    out.close("end");
    out.put("return row");
    out.close("end");
}

fn write_put(name: &str, prefix: &str, values: &[Typed], runtime: &mut Runtime, out: &mut Writer) {
    let set = runtime.need("set");
    out.open(format!("function {name}.put(_, key, row)"));
    out.open("if row then");
    out.put(format!("{set}({prefix} .. key, {})", packed_row(values)));
    out.turn("else");
    out.put(format!("objclass.map_remove_key({prefix} .. key)"));
    out.close("end");
    out.close("end");
}

/// Returns two pieces of Lua code: the beginning of a call that reads one page of a table's rows,
/// and an expression for a value of that page.
pub(super) fn range(is_placed: bool, name: &str, runtime: &mut Runtime) -> (String, &'static str) {
    match is_placed {
        true => (format!("{name}.page(object, "), "value"),
        false => (format!("{}(", runtime.need("page")), "value:str()"),
    }
}

/// The stored form of columns.
pub(super) fn packed_row(columns: &[Typed]) -> String {
    let format = encoding::format(columns.iter().map(|(_, ty)| *ty));
    let values: Vec<_> = columns.iter().flat_map(packed).collect();
    pack(&format, &values)
}
