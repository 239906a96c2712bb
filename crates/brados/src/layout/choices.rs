//! All layouts that are possible for a program.

use std::ops::RangeInclusive;

use super::legality::{Illegal, Stored, header_location, reasons, table_location};
use super::{HeaderLocation, IndexLocation, Layout, TableLocation};
use crate::compile::Compiled;
use crate::limits::{MAX_LISTED_LAYOUTS, MAX_SLOT_BYTES, MIN_SLOT_BYTES};

/// Widths that a slot can have.
const SLOT_BYTES: RangeInclusive<u32> = MIN_SLOT_BYTES..=MAX_SLOT_BYTES;

/// The possible layouts of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choices {
    /// The tables, in the order of their declaration, without those that are fields of the header.
    pub tables: Vec<TableChoices>,
    /// Where the header may be.
    pub header: Vec<HeaderLocation>,
    /// Why it may not be elsewhere.
    pub header_illegal: Vec<(HeaderLocation, Illegal)>,
    /// Every legal combination, the plainest first, up to [`MAX_LISTED_LAYOUTS`].
    pub layouts: Vec<Layout>,
    /// Why combinations of legal locations are not legal.
    pub illegal: Vec<(Layout, Illegal)>,
}

/// Where a table may lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChoices {
    /// The table.
    pub name: String,
    /// Where it may be.
    pub locations: Vec<TableLocation>,
    /// Why it may not be elsewhere.
    pub illegal: Vec<(TableLocation, Illegal)>,
}

impl Choices {
    /// All layouts that are possible for a program. `slot_bytes` are the widths of slots to try;
    /// widths that are not legal are left out.
    pub fn of(compiled: &Compiled, slot_bytes: &[u32]) -> Self {
        let stored = Stored::new(&compiled.analysis.program, &compiled.plan.views);
        let locations = locations(slot_bytes);
        let tables: Vec<_> = stored
            .tables()
            .map(|id| {
                let table = stored.program.collection(id);
                let (locations, illegal) =
                    divided(&locations, |location| table_location(table, location));
                TableChoices { name: table.name.clone(), locations, illegal }
            })
            .collect();
        let headers = [HeaderLocation::Map, HeaderLocation::Attribute, HeaderLocation::Stream];
        let (header, header_illegal) =
            divided(&headers, |location| header_location(&stored, location));
        let mut choices = Self { tables, header, header_illegal, layouts: vec![], illegal: vec![] };
        choices.combine(&stored);
        choices
    }

    fn combine(&mut self, stored: &Stored<'_>) {
        let mut combinations = vec![Layout::default()];
        for table in &self.tables {
            let with = |location: &TableLocation| {
                let location = *location;
                let put = move |mut layout: Layout| {
                    layout.set_table(&table.name, location);
                    layout
                };
                combinations.clone().into_iter().map(put).collect::<Vec<_>>()
            };
            combinations = table.locations.iter().flat_map(with).collect();
            combinations.truncate(MAX_LISTED_LAYOUTS);
        }
        let headers = self.header.clone();
        let with_header = |header: HeaderLocation| {
            combinations.iter().map(move |layout| Layout { header, ..layout.clone() })
        };
        for layout in headers.into_iter().flat_map(with_header).take(MAX_LISTED_LAYOUTS) {
            match reasons(stored, &layout).into_iter().next() {
                None => self.layouts.push(layout),
                Some(illegal) => self.illegal.push((layout, illegal)),
            }
        }
    }
}

fn locations(slot_bytes: &[u32]) -> Vec<TableLocation> {
    let possible = slot_bytes.iter().filter(|bytes| SLOT_BYTES.contains(bytes));
    let slots = possible.map(|bytes| TableLocation::Slots { bytes: *bytes, count: None });
    let appended = [IndexLocation::Map, IndexLocation::STREAM].map(TableLocation::Appended);
    [TableLocation::Map].into_iter().chain(slots).chain(appended).collect()
}

/// The legal locations of a table, and the reasons why others are not legal.
fn divided<P: Copy>(
    locations: &[P],
    is_legal: impl Fn(P) -> Result<(), Illegal>,
) -> (Vec<P>, Vec<(P, Illegal)>) {
    let mut divided = (vec![], vec![]);
    for location in locations {
        match is_legal(*location) {
            Ok(()) => divided.0.push(*location),
            Err(illegal) => divided.1.push((*location, illegal)),
        }
    }
    divided
}
