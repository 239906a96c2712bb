//! Describes where all stored data is.

use super::Explainer;
use crate::ir::CollectionId;
use crate::layout::stream::{Stream, divide};
use crate::layout::{HeaderLocation, IndexLocation, Layout, Stored, TableLocation};
use crate::plan::{Edge, KeptAs};
use crate::syntax::ast::Kind;

impl Explainer<'_> {
    /// The layout, and why it is this one.
    pub(super) fn layout(&self) -> String {
        let former: Vec<_> = self.program.former_layouts().map(Layout::to_string).collect();
        let declared = self.program.layouts.iter().any(|declared| !declared.is_former);
        let why = if declared { "as the program says" } else { "the program names no other" };
        let former = match former.is_empty() {
            true => String::new(),
            false => format!("; objects in {} are migrated", former.join(" or in ")),
        };
        format!("{} ({why}{former})", self.program.layout())
    }

    /// A line for each thing that is stored.
    pub(super) fn stored(&self) -> Vec<String> {
        let layout = self.program.layout();
        let stored = Stored::new(self.program, self.views);
        let stream = divide(&stored, &layout).unwrap_or_default();
        let tables = self.program.of_kind(Kind::Table).map(|id| {
            let location = match self.program.collection(id).is_singleton() {
                true => "its one row in the header, read with every request".to_owned(),
                false => self.location(id, layout.table(self.name(id)), &stream),
            };
            format!("table {}: {location}", self.name(id))
        });
        let header = self.header(&layout, &stream);
        tables.chain(header).chain(self.aggregates()).chain(self.channels()).collect()
    }

    fn location(&self, id: CollectionId, location: TableLocation, stream: &Stream) -> String {
        let name = self.name(id);
        let slots = stream.slots_of(id);
        let heap = stream.heap.map_or(0, |(base, _)| base);
        match (location, slots) {
            (TableLocation::Slots { .. }, Some(slots)) => format!(
                "{} slots of {} bytes in the byte stream from byte {} on, one for each {} from \
                 about the first on; wider rows and those of other keys in the map",
                slots.count,
                slots.width,
                slots.base,
                self.program.collection(id).columns[0].name
            ),
            (TableLocation::Appended(IndexLocation::Stream { .. }), Some(slots)) => format!(
                "appended to the byte stream behind byte {heap}, where is noted for {} keys from \
                 byte {} on, for others in the map",
                slots.count, slots.base
            ),
            (TableLocation::Appended(_), _) => format!(
                "appended to the byte stream behind byte {heap}, where is noted in the map, keys \
                 `{name}@…`"
            ),
            _ => format!("a map entry a row, keys `{name}.…` in the order of its key"),
        }
    }

    /// The location of the header, if it is not the map.
    fn header(&self, layout: &Layout, stream: &Stream) -> Option<String> {
        match layout.header {
            HeaderLocation::Map => None,
            HeaderLocation::Attribute => Some("header: the attribute `brados`".to_owned()),
            HeaderLocation::Stream => {
                Some(format!("header: the first {} bytes of the byte stream", stream.header_bytes))
            }
        }
    }

    fn aggregates(&self) -> impl Iterator<Item = String> + '_ {
        self.views.iter().map(|view| {
            let line = self.lines.line(self.program.rules[view.rule].span.start);
            let location = match view.kept_as(self.program) {
                KeptAs::Edge(Edge::First) => "the first key of the table",
                KeptAs::Edge(Edge::Last) => "the last key of the table",
                KeptAs::Header | KeptAs::EdgeInHeader(_) => "in the header, changed with the table",
                KeptAs::Entries => "a map entry a group, changed with the table",
            };
            let repair = match view.needs_repair() && view.is_kept(self.program) {
                true => "; where a greatest or least row goes, its group is gone over again",
                false => "",
            };
            let name = self.name(view.collection);
            format!("aggregate {name} ({}, line {line}): {location}{repair}", view.name)
        })
    }

    fn channels(&self) -> impl Iterator<Item = String> + '_ {
        self.program.of_kind(Kind::Channel).map(|id| {
            let by = match self.program.collection(id).is_delivered() {
                true => "the runtime delivers",
                false => "the application drains",
            };
            format!("channel {}: a map entry a message, which {by}", self.name(id))
        })
    }
}
