//! Emits access to tables whose rows are not in the object's map but in its byte stream: in slots,
//! or appended.
//!
//! Each such location is called a *place*, and `layout.lua` implements a key–value store for it. The
//! code that this module emits selects the place of each table. Rows are encoded as in the map.

use super::encoding::quoted;
use super::layouts::{Layouts, Physical};
use super::runtime::Runtime;
use super::stored::write_get;
use super::writer::Writer;
use crate::ir::{CollectionId, Rule};
use crate::layout::stream::Slots;
use crate::layout::{IndexLocation, TableLocation};
use crate::syntax::token::MergeOp;

/// Writes the heaps of all layouts that have one.
pub(super) fn write_heaps(layouts: &Layouts<'_>, runtime: &mut Runtime, out: &mut Writer) {
    for (number, physical) in layouts.all.iter().enumerate() {
        if let Some((base, field)) = physical.stream.heap {
            let heap_at = runtime.need("heap_at");
            let at = physical.first + field;
            out.put(format!("local {} = {heap_at}({base}, {at})", heap_name(number)));
        }
    }
}

pub(super) fn heap_name(number: usize) -> String {
    format!("heap{}", number + 1)
}

/// Writes the places of a table: one for the present layout, and one for each former layout.
/// `format` says how the table's rows are packed.
pub(super) fn write_places(
    layouts: &Layouts<'_>,
    id: CollectionId,
    name: &str,
    format: &str,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    if !layouts.has_former() {
        let place = place(layouts, 0, id, runtime);
        return out.put(format!("{name}.place = {place}"));
    }
    let own = quoted(format!("{}.", layouts.stored.name(id)).as_bytes());
    let map = format!("{name}_map");
    out.open("do");
    out.put(format!("local {map} = {}({own})", runtime.need("in_map")));
    let places: Vec<_> = (0..layouts.all.len())
        .map(|number| match layouts.all[number].layout.table(layouts.stored.name(id)) {
            TableLocation::Map => map.clone(),
            _ => place(layouts, number, id, runtime),
        })
        .collect();
    runtime.need("mixed");
    out.put(format!("add_places({name}, \"<{format}\", {map}, {{ {} }})", places.join(", ")));
    out.close("end");
}

fn place(layouts: &Layouts<'_>, number: usize, id: CollectionId, runtime: &mut Runtime) -> String {
    let physical = &layouts.all[number];
    let name = layouts.stored.name(id);
    let rows = quoted(format!("{name}.").as_bytes());
    // Index entries have other keys than rows.
    let notes = quoted(format!("{name}@").as_bytes());
    let index = match physical.layout.table(name) {
        TableLocation::Map => return format!("{}({rows})", runtime.need("in_map")),
        TableLocation::Slots { .. } => return slots(physical, id, &rows, runtime),
        TableLocation::Appended(IndexLocation::Map) => {
            format!("{}({notes})", runtime.need("in_map"))
        }
        TableLocation::Appended(IndexLocation::Stream { .. }) => {
            slots(physical, id, &notes, runtime)
        }
    };
    let is_final = is_final(layouts, id);
    format!("{}({index}, {}, {is_final})", runtime.need("appended"), heap_name(number))
}

/// Whether rows of a table are never replaced or deleted.
fn is_final(layouts: &Layouts<'_>, id: CollectionId) -> bool {
    let takes_away = |rule: &Rule| matches!(rule.op, MergeOp::Delete | MergeOp::Replace);
    !layouts.stored.program.rules.iter().any(|rule| rule.head == id && takes_away(rule))
}

fn slots(physical: &Physical, id: CollectionId, prefix: &str, runtime: &mut Runtime) -> String {
    let Some(Slots { base, width, count, field }) = physical.stream.slots_of(id) else {
        return format!("{}({prefix})", runtime.need("in_map"));
    };
    let at = physical.first + field;
    format!("{}({prefix}, {at}, {base}, {width}, {count})", runtime.need("in_slots"))
}

/// A Lua expression for the place in which a table has its rows now. During a migration this
/// depends on the state of the object.
fn place_in_force(layouts: &Layouts<'_>, name: &str) -> String {
    match layouts.has_former() {
        true => format!("place_of(object, {name})"),
        false => format!("{name}.place"),
    }
}

/// The stored bytes of a row, by its key.
pub(super) fn find(layouts: &Layouts<'_>, name: &str, key: &str) -> String {
    format!("{}.find(object, {key})", place_in_force(layouts, name))
}

/// Writes `get`, `put` and `page` of a table, which use its place.
pub(super) fn write_access(
    layouts: &Layouts<'_>,
    id: CollectionId,
    name: &str,
    packed: &str,
    out: &mut Writer,
) {
    let known = quoted(format!("{}.", layouts.stored.name(id)).as_bytes());
    let place = place_in_force(layouts, name);
    write_get(name, &known, &find(layouts, name, "key"), out);
    out.open(format!("function {name}.put(object, key, row)"));
    out.put(format!("{place}.keep(object, key, row and {packed} or nil)"));
    out.close("end");
    out.open(format!("function {name}.page(object, beginning, after)"));
    out.put(format!("return {place}.page(object, beginning, after)"));
    out.close("end");
}
