//! The layouts that a class knows: the present one, and former ones in which some objects may still
//! be.

use super::stored::signature;
use crate::ir::{CollectionId, Program};
use crate::layout::stream::{Stream, divide};
use crate::layout::{Layout, Stored};
use crate::plan::View;

pub(super) struct Layouts<'a> {
    pub stored: Stored<'a>,
    /// The present one first.
    pub all: Vec<Physical>,
}

/// A layout with the offsets of its parts.
pub(super) struct Physical {
    pub layout: Layout,
    pub stream: Stream,
    /// Where its fields begin among those of the header.
    pub first: usize,
    /// The signature of objects in this layout.
    pub signature: String,
    /// The formats of the program's fields and its own.
    pub format: String,
}

impl<'a> Layouts<'a> {
    pub fn new(program: &'a Program, views: &[View]) -> Self {
        let stored = Stored::new(program, views);
        let mut first = stored.header.blank.len() + 1;
        let mut all = vec![];
        let declared: Vec<_> =
            [program.layout()].into_iter().chain(program.former_layouts().cloned()).collect();
        for layout in declared {
            // A layout that cannot be divided was refused.
            let stream = divide(&stored, &layout).unwrap_or_default();
            let signature = signature(program, views, &layout);
            let format = format!("<{}{}", stored.header.format, stream.format);
            let fields = stream.fields;
            all.push(Physical { layout, stream, first, signature, format });
            first += fields;
        }
        Self { stored, all }
    }

    pub fn present(&self) -> &Physical {
        &self.all[0]
    }

    pub fn has_former(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether some layout stores the table outside the map.
    pub fn is_placed(&self, id: CollectionId) -> bool {
        self.stored.program.is_placed(id)
    }

    /// How many fields the program itself has.
    pub fn program_fields(&self) -> usize {
        self.stored.header.blank.len()
    }
}
