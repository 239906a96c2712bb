//! Emits how a class loads and stores the header of an object. The header is the record of all data
//! that the object has only once; the layout says where it is stored.
//!
//! | entry `@brados` of the map | meaning |
//! |---|---|
//! | `b`, fifteen digits, fields | the object is in the layout with these digits; the fields are its header |
//! | `b`, fifteen digits | the object is in this layout; the header (the same digits, then the fields) is in the attribute `brados` or at the beginning of the stream |
//! | `m`, fifteen digits, a cursor (`s4`), fields | the object is migrating into or out of this layout: each row is in this layout or in the map |
//!
//! **Invariant.** In every layout `@brados` begins with a letter and the layout's digits. A
//! transaction that changes an object's layout also writes the digits. So a class notices that it
//! does not know the layout of an object. It never takes such an object for a new one, or for one
//! in a layout that it knows.

use super::encoding::quoted;
use super::layouts::{Layouts, Physical};
use super::method::register;
use super::place::heap_name;
use super::runtime::Runtime;
use super::view::refresh_edges;
use super::writer::Writer;
use crate::layout::HeaderLocation;
use crate::layout::stream::SIGNATURE_BYTES;
use crate::plan::View;
use nacre_calls::MIGRATE_METHOD;

/// The key of the header.
pub const HEADER_KEY: &str = "@brados";
/// The name of the attribute, if the header is an attribute.
const ATTRIBUTE: &str = "brados";

pub(super) fn write(
    layouts: &Layouts<'_>,
    views: &[View],
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let physical = layouts.present();
    let refresh = refresh_edges(layouts, physical, views, runtime);
    let is_whole = is_whole(layouts, views);
    HeaderWriter { layouts, physical, refresh, is_whole, runtime, out }.write();
}

/// Whether the state of an object consists only of rows and the header.
pub(super) fn is_whole(layouts: &Layouts<'_>, views: &[View]) -> bool {
    let channels = layouts.stored.header.channels;
    !views.iter().any(|view| view.is_kept(layouts.stored.program))
        && channels.drained.or(channels.delivered).is_none()
        && !layouts.present().layout.uses_stream()
}

struct HeaderWriter<'a> {
    layouts: &'a Layouts<'a>,
    physical: &'a Physical,
    /// Code that computes stored ends of tables anew, for an object in the present layout.
    refresh: Vec<String>,
    is_whole: bool,
    runtime: &'a mut Runtime,
    out: &'a mut Writer,
}

/// Code that reads a layout's header, if it is not in the map.
pub(super) fn stored_header(physical: &Physical, runtime: &mut Runtime) -> Option<String> {
    match physical.layout.header {
        HeaderLocation::Map => None,
        HeaderLocation::Attribute => {
            Some(format!("{}(\"{ATTRIBUTE}\")", runtime.need("attribute")))
        }
        HeaderLocation::Stream => {
            let bytes = physical.stream.header_bytes;
            Some(format!("{}(0, {bytes})", runtime.need("read")))
        }
    }
}

/// Stores the bytes of a layout's header.
fn store_header(physical: &Physical, bytes: &str, runtime: &mut Runtime) -> String {
    match physical.layout.header {
        HeaderLocation::Map => format!("{}(\"{HEADER_KEY}\", {bytes})", runtime.need("set")),
        HeaderLocation::Attribute => {
            format!("{}(\"{ATTRIBUTE}\", {bytes})", runtime.need("set_attribute"))
        }
        HeaderLocation::Stream => format!("{}(0, {bytes})", runtime.need("write")),
    }
}

/// Code that deletes a layout's header, if it is not in the map.
pub(super) fn clear_header(physical: &Physical, runtime: &mut Runtime) -> Option<String> {
    let nothing = match physical.layout.header {
        HeaderLocation::Map => return None,
        HeaderLocation::Attribute => "\"\"".to_owned(),
        HeaderLocation::Stream if physical.layout.tables().next().is_none() => {
            return Some("objclass.write_full(bufferlist.new())".to_owned());
        }
        HeaderLocation::Stream => format!("string.rep(\"\\0\", {})", physical.stream.header_bytes),
    };
    Some(store_header(physical, &nothing, runtime))
}

impl HeaderWriter<'_> {
    fn write(mut self) {
        self.runtime.need("names");
        self.out.put("-- What a request knows of its object: what there is one of (the fields of the header), rows");
        self.out.put("-- that were looked up (`known`), states of aggregates that change (by the aggregate's name).");
        self.write_new();
        self.out.open("local function load_object()");
        self.write_load();
        self.out.close("end");
        self.out.open("local function save_object(object)");
        self.write_save();
        self.out.close("end");
        if !self.layouts.has_former() {
            self.write_keep();
        }
    }

    /// Writes `kept_object(object)`, which returns what the next request of a batch may know: the
    /// header.
    fn write_keep(&mut self) {
        let count = self.fields();
        self.out.open("local function kept_object(object)");
        if self.is_whole {
            self.out.open("if next(object.known) == nil then");
            self.out.put("return object");
            self.out.close("end");
        }
        self.out.put(format!("return {{ known = {{}}, table.unpack(object, 1, {count}) }}"));
        self.out.close("end");
    }

    /// How many fields a header has.
    fn fields(&self) -> usize {
        self.layouts.program_fields() + self.physical.stream.fields
    }

    /// Writes `new_object()`, which returns the state of an object that does not exist yet.
    fn write_new(&mut self) {
        let fields =
            [&self.layouts.stored.header.blank[..], &self.physical.stream.blank()].concat();
        // Declared with what former layouts need.
        let local = if self.layouts.has_former() { "" } else { "local " };
        self.out.open(format!("{local}function new_object()"));
        let known = ["known = {}".to_owned()];
        self.out.put(format!("return {{ {} }}", [&fields[..], &known].concat().join(", ")));
        self.out.close("end");
    }

    fn write_load(&mut self) {
        let get = self.runtime.need("get");
        let signature = quoted(self.physical.signature.as_bytes());
        let is_own = format!("sub(stored, 1, {SIGNATURE_BYTES}) == {signature}");
        let format = quoted(self.physical.format.as_bytes());
        let fields = format!("unpack({format}, stored, {})", SIGNATURE_BYTES + 1);
        let own = format!("local object = {{ known = {{}}, {fields} }}");
        match stored_header(self.physical, self.runtime) {
            None => self.out.put(format!("local stored = {get}(\"{HEADER_KEY}\")")),
            Some(stored) => {
                self.out.put(format!("local stored = {stored}"));
                self.out.open(format!("if stored and {is_own} then"));
                self.put_own(&own);
                self.out.close("end");
                self.out.put(format!("stored = {get}(\"{HEADER_KEY}\")"));
            }
        }
        self.out.open("if not stored then");
        if self.physical.layout.uses_stream() {
            let own_stream = self.runtime.need("own_stream");
            self.out.put(format!("{own_stream}()"));
        }
        self.out.put("local object = new_object()");
        self.out.put("object.is_new = true");
        self.out.put("return object");
        if self.physical.layout.header == HeaderLocation::Map {
            self.out.turn(format!("elseif {is_own} then"));
            self.put_own(&own);
        }
        self.out.close("end");
        let foreign = self.runtime.need("is_foreign");
        match self.layouts.has_former() {
            true => {
                let adopt = self.runtime.need("adopt");
                self.out.put(format!("return {adopt}(stored) or {foreign}()"));
            }
            false => self.out.put(format!("{foreign}()")),
        }
    }

    fn put_own(&mut self, own: &str) {
        self.out.put(own);
        self.refresh.iter().for_each(|line| self.out.put(line));
        self.out.put("return object");
    }

    fn write_save(&mut self) {
        if self.layouts.has_former() {
            self.out.open("if object.from then");
            self.out.put("return save_between(object)");
            self.out.close("end");
            self.out.put("clear_old_header(object)");
        }
        let signature = quoted(self.physical.signature.as_bytes());
        let count = self.fields();
        let bytes = format!(
            "{signature} .. pack({}, table.unpack(object, 1, {count}))",
            quoted(self.physical.format.as_bytes())
        );
        let store = store_header(self.physical, &bytes, self.runtime);
        self.out.put(store);
        if self.physical.layout.header != HeaderLocation::Map {
            let set = self.runtime.need("set");
            self.out.open("if object.is_new then");
            self.out.put(format!("{set}(\"{HEADER_KEY}\", {signature})"));
            self.out.close("end");
        }
        self.out.put("object.is_new, object.is_changed = nil, nil");
    }
}

/// For a class that has former layouts, writes the description of each layout, and of each table
/// whose location differs between layouts. The section `adopt` of `migrate.lua` uses both.
pub(super) fn write_layouts(
    layouts: &Layouts<'_>,
    views: &[View],
    tables: &[String],
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    runtime.need("adopt");
    out.put(format!("PROGRAM_FIELDS = {}", layouts.program_fields()));
    out.put(format!("MOVING = {{ {} }}", tables.join(", ")));
    out.open("LAYOUTS = {");
    for number in 0..layouts.all.len() {
        let fields = known_of(layouts, number, views, runtime);
        out.put(format!("{{ {} }},", fields.join(", ")));
    }
    out.close("}");
    write_migrate(runtime, out);
}

/// The fields of a layout's entry in `LAYOUTS`.
fn known_of(
    layouts: &Layouts<'_>,
    number: usize,
    views: &[View],
    runtime: &mut Runtime,
) -> Vec<String> {
    let physical = &layouts.all[number];
    let mut fields = vec![
        format!("digits = {}", quoted(&physical.signature.as_bytes()[1..])),
        format!("format = {}", quoted(physical.format.as_bytes())),
        format!("first = {}", physical.first),
        format!("count = {}", physical.stream.fields),
        format!("has_rows = {}", physical.layout.tables().next().is_some()),
        format!("has_stream = {}", physical.layout.uses_stream()),
    ];
    if physical.stream.heap.is_some() {
        fields.push(format!("heap = {}", heap_name(number)));
    }
    let refresh = refresh_edges(layouts, physical, views, runtime);
    if !refresh.is_empty() {
        fields.push(format!("refresh = function(object) {} end", refresh.join(" ")));
    }
    if let Some(stored) = stored_header(physical, runtime) {
        fields.push(format!("load = function() return {stored} end"));
    }
    if !physical.layout.uses_stream() && layouts.present().layout.uses_stream() {
        // An object that is held stays in this layout.
        let save = store_header(physical, "stored", runtime);
        fields.push(format!("save = function(stored) {save} end"));
    }
    if let Some(clear) = clear_header(physical, runtime) {
        fields.push(format!("clear = function() {clear} end"));
    }
    fields
}

/// The method that migrates an object.
fn write_migrate(runtime: &mut Runtime, out: &mut Writer) {
    let (fail, migrate) = (runtime.need("fail"), runtime.need("migrate"));
    let global = format!("_G[\"{MIGRATE_METHOD}\"]");
    out.open(format!("{global} = function(input, output)"));
    out.open("if #input > 0 then");
    out.put(format!("{fail}(-22, \"the request is no row of {MIGRATE_METHOD}, []\")"));
    out.close("end");
    out.put("local object = load_object()");
    let is_changed = "(object.is_new or object.is_changed)";
    out.open(format!("if {migrate}(object, output) and {is_changed} then"));
    out.put("save_object(object)");
    out.close("end");
    out.put("return 0");
    out.close("end");
    register(&global, None, None, runtime, out);
}
