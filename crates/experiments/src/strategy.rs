//! The ways to store a log that the Brados paper compares (its table 2), and the counterpart of
//! each way in nacre.
//!
//! A strategy says which object gets an entry, and through which interface the object stores it.
//! Each entry has its own object (1:1), or the entries share a few objects (N:1).
//!
//! Each strategy is measured in two forms. The bare form is a single store operation that does not
//! check the epoch, as in the Brados paper's figures 4, 5 and 7. The full form is the log's storage
//! interface: a class that the compiler made from `log.brados`, in the matching layout.

use nacre_brados::{Layout, with_layout};
use nacre_object::{Error, Result};

/// The program whose layouts are measured, and where it is kept.
pub(crate) const PROGRAM_PATH: &str = "programs/class/log.brados";
pub(crate) const PROGRAM: &str = include_str!("../../../programs/class/log.brados");
/// A class that only appends its input. It shows the cost of calling a class.
pub(crate) const WRITE_ONLY: &str = include_str!("write_only.lua");
/// The bytes of a slot, the fixed-size record of an entry in the byte stream, in addition to the
/// entry: for the row's other columns, and for a flag that the slot is used.
const SLOT_ROOM: usize = 64;

/// How entries are addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// 1:1, each is an object.
    Each,
    /// N:1, they are spread over a few objects.
    Striped,
}

/// The part of an object in which entries are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// As values of the map.
    KeyValue,
    /// In the byte stream, at offsets computed from their positions.
    Explicit,
    /// At the end of the byte stream.
    Append,
}

/// The operation or class with which entries are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One operation of the store.
    Bare(Interface),
    /// A method that appends.
    WriteOnly,
    /// `log.brados` in this layout, where `WIDTH` stands for the width of a slot.
    Relations(&'static str),
}

/// A way to keep a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strategy {
    /// Its name in the Brados paper.
    pub name: &'static str,
    /// How entries are addressed.
    pub addressing: Addressing,
    /// The operation or class with which entries are stored.
    pub way: Way,
}

const KV_EACH: &str = "(1:1, KV)";
const AP_EACH: &str = "(1:1, AP)";
const KV: &str = "(N:1, KV)";
const EX: &str = "(N:1, EX)";
const AP: &str = "(N:1, AP)";
/// A use of the byte stream that the Brados paper does not specify.
const BS: &str = "(N:1, BS)";
const AP_INDEXED: &str = "(N:1, AP), index in BS";

/// Everything in the map.
const MAP: &str = "map";
/// Everything in the byte stream, entries at offsets computed from their positions.
const SLOTS: &str = "log: slots(WIDTH), header: stream";
/// Entries in the byte stream, their metadata in the map.
const INDEX_IN_MAP: &str = "log: appended(map)";
/// Everything in the byte stream, entries appended.
const INDEX_IN_STREAM: &str = "log: appended(stream), header: stream";
/// Everything in the byte stream, for an object with one entry.
const ONE_IN_STREAM: &str = "log: appended(stream, 1), header: stream";

impl Strategy {
    /// Table 2 by bare operations.
    pub(crate) const BARE: [Self; 5] = [
        Self::bare(KV_EACH, Addressing::Each, Interface::KeyValue),
        Self::bare(AP_EACH, Addressing::Each, Interface::Append),
        Self::bare(KV, Addressing::Striped, Interface::KeyValue),
        Self::bare(EX, Addressing::Striped, Interface::Explicit),
        Self::bare(AP, Addressing::Striped, Interface::Append),
    ];

    /// Table 2 by layouts. Appended entries need an index, which has two places.
    pub(crate) const RELATIONS: [Self; 6] = [
        Self::relations(KV_EACH, Addressing::Each, MAP),
        Self::relations(AP_EACH, Addressing::Each, ONE_IN_STREAM),
        Self::relations(KV, Addressing::Striped, MAP),
        Self::relations(EX, Addressing::Striped, SLOTS),
        Self::relations(AP, Addressing::Striped, INDEX_IN_MAP),
        Self::relations(AP_INDEXED, Addressing::Striped, INDEX_IN_STREAM),
    ];

    /// The strategies that show the cost of metadata. The first one only appends entries. The
    /// second one does the same through a class. The last two also store the epoch and the states
    /// of the entries, in the map or in the byte stream.
    pub(crate) const METADATA: [Self; 4] = [
        Self::bare("bare append", Addressing::Striped, Interface::Append),
        Self { name: "write only", addressing: Addressing::Striped, way: Way::WriteOnly },
        Self::relations("metadata in KV", Addressing::Striped, INDEX_IN_MAP),
        Self::relations("metadata in BS", Addressing::Striped, INDEX_IN_STREAM),
    ];

    /// N:1, the map beside the byte stream.
    pub(crate) const MAP_BESIDE_STREAM: [Self; 4] = [
        Self::bare(KV, Addressing::Striped, Interface::KeyValue),
        Self::bare(BS, Addressing::Striped, Interface::Append),
        Self::relations(KV, Addressing::Striped, MAP),
        Self::relations(BS, Addressing::Striped, INDEX_IN_STREAM),
    ];

    const fn bare(name: &'static str, addressing: Addressing, interface: Interface) -> Self {
        Self { name, addressing, way: Way::Bare(interface) }
    }

    const fn relations(name: &'static str, addressing: Addressing, layout: &'static str) -> Self {
        Self { name, addressing, way: Way::Relations(layout) }
    }

    /// The class that stores entries of the given size; `None` if the strategy uses no class.
    pub(crate) fn source(&self, bytes: usize) -> Result<Option<String>> {
        let Some(layout) = self.layout(bytes) else {
            return Ok((self.way == Way::WriteOnly).then(|| WRITE_ONLY.to_owned()));
        };
        let layout: Layout =
            layout.parse().map_err(|error| Error::invalid(format!("{layout}: {error}")))?;
        Ok(Some(with_layout(PROGRAM, &layout, &[])))
    }

    /// The layout, as a program says it.
    pub(crate) fn layout(&self, bytes: usize) -> Option<String> {
        let Way::Relations(layout) = self.way else { return None };
        let width = (bytes + SLOT_ROOM).next_multiple_of(SLOT_ROOM);
        Some(layout.replace("WIDTH", &width.to_string()))
    }
}

impl Way {
    /// What it is called in reports and plots.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare(_) => "bare operations",
            Self::WriteOnly => "a method that appends",
            Self::Relations(_) => "log.brados",
        }
    }
}

#[cfg(test)]
mod tests {
    use nacre_brados::layout::check;

    use super::*;

    #[test]
    fn every_layout_of_a_strategy_is_possible_for_the_log_program() {
        let compiled = nacre_brados::compile(PROGRAM).unwrap();
        let all = [&Strategy::RELATIONS[..], &Strategy::METADATA, &Strategy::MAP_BESIDE_STREAM];
        for strategy in all.into_iter().flatten() {
            let Some(layout) = strategy.layout(128) else { continue };
            assert_eq!(check(&compiled, &layout.parse().unwrap()), [], "{}", strategy.name);
            let source = strategy.source(128).unwrap().unwrap();
            assert!(nacre_brados::compile(&source).is_ok(), "{source}");
        }
    }

    #[test]
    fn the_compiler_does_not_stripe_the_program_so_the_client_does() {
        let compiled = nacre_brados::compile(PROGRAM).unwrap();
        for layout in ["stripes: each", "stripes: 8"] {
            let found = check(&compiled, &layout.parse().unwrap());
            assert!(found.iter().any(|one| one.reason.contains("`seal`")), "{found:?}");
        }
    }
}
