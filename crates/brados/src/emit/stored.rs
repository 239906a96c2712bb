//! The map layout: what a class keeps, and where.
//!
//! | key | value |
//! |---|---|
//! | `@brados` | which layout this is, sixteen characters (`signature`); then, packed, what there is one of: the number of the last message if there are channels, the row of each table with an empty key, and each aggregate of a whole table |
//! | `~` and a number, seven bytes, big-endian | a message that waits to be delivered, as a reply of one row |
//! | `TABLE.` and a row's key | the columns that are not the key, packed |
//! | `TABLE#COLUMNS#AGGREGATES.` and a group's key | how many rows, then the aggregates, packed |
//!
//! Keys sort as their columns do ([`super::encoding::key`]). Packed columns are those of
//! `string.pack`, little-endian: `i8`, `s4` (length first), truth values `B`; one that may be nil has
//! a byte before it that says whether it is there.
//!
//! A method reaches what is stored by a Lua table for each table and aggregate, and by nothing else:
//! `get(object, key)` (the row, as it was at the start of the request), `put(object, key, row)`, `row(key, value)`
//! and `prefix` for ranges. Another layout is another set of these.

use super::encoding::{self, Typed, blank, column_reader, packed, quoted, slots, unpacked};
use super::runtime::Runtime;
use super::writer::Writer;
use crate::ir::{CollectionId, Function, Program};
use crate::plan::View;
use crate::syntax::ast::Kind;
use crate::value::{Base, Type};

/// The key of what there is one of.
pub(super) const HEADER_KEY: &str = "@brados";
/// Bytes of the signature.
const SIGNATURE_BYTES: usize = 16;

/// The fields of the header: their formats, what they hold at first, and where each begins.
#[derive(Debug, Default)]
pub(super) struct Header {
    format: String,
    blank: Vec<String>,
    starts: Vec<(CollectionId, usize)>,
    signature: String,
}

impl Header {
    pub fn new(program: &Program, views: &[View]) -> Self {
        let mut header = Self::default();
        if program.of_kind(Kind::Channel).next().is_some() {
            // The number of the last message: `send` counts in the first field.
            header.add("i8", vec!["0".to_owned()]);
        }
        for table in
            program.of_kind(Kind::Table).filter(|id| program.collection(*id).is_singleton())
        {
            header.starts.push((table, header.blank.len() + 1));
            header.add("B", vec!["0".to_owned()]);
            for column in &program.collection(table).columns {
                header.add(&encoding::format([column.ty]), blank(column.ty));
            }
        }
        for view in views.iter().filter(|view| view.keys.is_empty()) {
            header.starts.push((view.collection, header.blank.len() + 1));
            header.add("i8", vec!["0".to_owned()]);
            for ty in kept(program, view) {
                header.add(&encoding::format([ty]), blank(ty));
            }
        }
        header.signature = signature(program, views);
        header
    }

    fn add(&mut self, format: &str, blank: Vec<String>) {
        self.format.push_str(format);
        self.blank.extend(blank);
    }

    /// Where the fields of a table or an aggregate begin.
    fn start(&self, id: CollectionId) -> Option<usize> {
        self.starts.iter().find(|(own, _)| *own == id).map(|(_, start)| *start)
    }

    pub fn write(&self, runtime: &mut Runtime, out: &mut Writer) {
        runtime.need("names");
        runtime.need("fail");
        let (get, set) = (runtime.need("get"), runtime.need("set"));
        let signature = quoted(self.signature.as_bytes());
        let format = quoted(format!("<{}", self.format).as_bytes());
        let key = quoted(HEADER_KEY.as_bytes());
        out.put("-- What a request knows of its object: what there is one of (the fields of the header), rows");
        out.put("-- that were looked up (`known`), states of aggregates that change (by the aggregate's name).");
        out.open("local function load_object()");
        out.put(format!("local stored = {get}({key})"));
        out.open("if not stored then");
        let mut blank = self.blank.clone();
        blank.push("known = {}".to_owned());
        blank.push("is_new = true".to_owned());
        out.put(format!("return {{ {} }}", blank.join(", ")));
        out.turn(format!("elseif sub(stored, 1, {SIGNATURE_BYTES}) == {signature} then"));
        let fields = format!("unpack({format}, stored, {})", SIGNATURE_BYTES + 1);
        out.put(format!("return {{ known = {{}}, {fields} }}"));
        out.close("end");
        out.put(
            "fail(-22, \"the object was written by a program with other tables or aggregates\")",
        );
        out.close("end");
        out.open("local function save_object(object)");
        out.open("if object.is_new or object.is_changed then");
        let count = self.blank.len();
        out.put(format!(
            "{set}({key}, {signature} .. pack({format}, table.unpack(object, 1, {count})))"
        ));
        out.close("end");
        out.close("end");
    }
}

/// Sixteen characters that differ where what is stored differs (FNV-1a of its description).
fn signature(program: &Program, views: &[View]) -> String {
    let mut text = String::from("map 1\n");
    for table in program.of_kind(Kind::Table) {
        let table = program.collection(table);
        text.push_str(&format!("{}[{}]", table.name, table.key_width));
        table.columns.iter().for_each(|column| text.push_str(&format!(" {}", column.ty)));
        text.push('\n');
    }
    for view in views {
        text.push_str(&format!("{}\n", view.name));
    }
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("b{:015x}", hash >> 4)
}

/// What is kept of a group besides how many rows it has.
pub(super) fn kept(program: &Program, view: &View) -> Vec<Type> {
    let table = program.collection(view.table);
    let of_column = |column: Option<usize>| {
        let base = column.map_or(Base::Int, |column| table.columns[column].ty.base);
        Type { base, may_be_nil: false }
    };
    let aggregates = view.aggregates.iter().filter(|one| one.function != Function::Count);
    aggregates.map(|one| of_column(one.column)).collect()
}

/// The access functions of a table.
pub(super) fn write_table(
    program: &Program,
    header: &Header,
    id: CollectionId,
    name: &str,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let table = program.collection(id);
    let prefix = quoted(format!("{}.", table.name).as_bytes());
    let (first, last) = (table.key_width + 1, table.width());
    out.put(format!(
        "local {name} = {{ name = {}, prefix = {prefix}, first = {first}, last = {last} }}",
        quoted(table.name.as_bytes())
    ));
    let types: Vec<Type> = table.columns.iter().map(|column| column.ty).collect();
    match header.start(id) {
        Some(start) => write_header_row(name, start, &types, runtime, out),
        None => {
            write_row_reader(name, &types, table.key_width, runtime, out);
            write_get(name, &prefix, runtime, out);
            write_put(name, &prefix, &types[table.key_width..], table.key_width, runtime, out);
        }
    }
}

/// A table with one row, which lies in the header.
fn write_header_row(
    name: &str,
    start: usize,
    types: &[Type],
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let mut at = start;
    let mut columns = vec![];
    let mut fields = vec![];
    for (column, ty) in types.iter().enumerate() {
        let slots: Vec<_> =
            (0..slots(*ty)).map(|slot| format!("object[{}]", at + 1 + slot)).collect();
        at += slots.len();
        columns.push(unpacked(runtime, *ty, &slots));
        let values = packed(&(format!("row[{}]", column + 1), *ty));
        fields.extend(slots.into_iter().zip(values).zip(blank(*ty)));
    }
    out.open(format!("function {name}.get(object)"));
    out.put(format!("return object[{start}] == 1 and {{ {} }} or nil", columns.join(", ")));
    out.close("end");
    out.open(format!("function {name}.put(object, _, row)"));
    out.put(format!("object[{start}] = row and 1 or 0"));
    for ((field, value), blank) in fields {
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

/// Reads the columns of `key`; answers the names they then have.
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

/// Unpacks `value`; answers what each column is then.
pub(super) fn read_value(types: &[Type], runtime: &mut Runtime, out: &mut Writer) -> Vec<String> {
    if types.is_empty() {
        return vec![];
    }
    runtime.need("names");
    let count: usize = types.iter().map(|ty| slots(*ty)).sum();
    let names: Vec<_> = (1..=count).map(|slot| format!("v{slot}")).collect();
    let format = encoding::format(types.iter().copied());
    out.put(format!("local {} = unpack(\"<{format}\", value)", names.join(", ")));
    let mut rest = names.as_slice();
    let mut columns = vec![];
    for ty in types {
        let (own, others) = rest.split_at(slots(*ty));
        columns.push(unpacked(runtime, *ty, own));
        rest = others;
    }
    columns
}

/// `name.get(key)`: a stored row, false or nil if there is none. Read once a request.
fn write_get(name: &str, prefix: &str, runtime: &mut Runtime, out: &mut Writer) {
    let get = runtime.need("get");
    out.open(format!("function {name}.get(object, key)"));
    out.put(format!("local stored = {prefix} .. key"));
    out.put("local row = object.known[stored]");
    out.open("if row == nil then");
    out.put(format!("local value = {get}(stored)"));
    out.put(format!("row = value and {name}.row(key, value) or false"));
    out.put("object.known[stored] = row");
    out.close("end");
    out.put("return row");
    out.close("end");
}

fn write_put(
    name: &str,
    prefix: &str,
    values: &[Type],
    key_width: usize,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let set = runtime.need("set");
    let columns: Vec<Typed> = values
        .iter()
        .enumerate()
        .map(|(at, ty)| (format!("row[{}]", key_width + at + 1), *ty))
        .collect();
    out.open(format!("function {name}.put(_, key, row)"));
    out.open("if row then");
    out.put(format!("{set}({prefix} .. key, {})", packed_row(&columns)));
    out.turn("else");
    out.put(format!("objclass.map_remove_key({prefix} .. key)"));
    out.close("end");
    out.close("end");
}

/// The stored form of columns.
pub(super) fn packed_row(columns: &[Typed]) -> String {
    if columns.is_empty() {
        return "\"\"".to_owned();
    }
    let format = encoding::format(columns.iter().map(|(_, ty)| *ty));
    let values: Vec<_> = columns.iter().flat_map(packed).collect();
    format!("pack(\"<{format}\", {})", values.join(", "))
}

/// Where an aggregate of a whole table lies in the header.
pub(super) fn header_start(header: &Header, id: CollectionId) -> Option<usize> {
    header.start(id)
}
