//! The layouts from which the tuner chooses, and the layouts that simple rules would choose.

use nacre_brados::layout::{Choices, HeaderLocation, TableLocation};
use nacre_brados::{Compiled, Layout};

/// The width of a slot is the length of the longest value plus this. The added bytes are for the
/// row's other columns and the slot's state.
const SLOT_ROOM: usize = 64;
/// Slots begin at multiples of so many bytes.
const SLOT_ALIGNMENT: usize = 64;
/// The rule by size stores values of up to this many bytes in the map: a page.
const THRESHOLD_BYTES: usize = 4096;

/// Simple rules, which ignore the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Everything in the map.
    Map,
    /// Everything in the byte stream that can be.
    Stream,
    /// The map for values of up to a page, the byte stream for longer ones.
    BySize,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Map, Self::Stream, Self::BySize];

    /// The rule's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "always the map",
            Self::Stream => "always the byte stream",
            Self::BySize => "the byte stream past a page",
        }
    }
}

/// The layouts from which the tuner chooses.
#[derive(Debug, Clone)]
pub(crate) struct Candidates {
    /// All legal layouts, the plainest first; divided among as many objects as the program says.
    pub layouts: Vec<Layout>,
    longest_bytes: usize,
}

impl Candidates {
    pub fn of(compiled: &Compiled, longest_bytes: usize) -> Self {
        let slot = (longest_bytes + SLOT_ROOM).next_multiple_of(SLOT_ALIGNMENT);
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let stripes = compiled.analysis.program.layout().stripes;
        let layouts = Choices::of(compiled, &[slot]).layouts.into_iter();
        let layouts = layouts.map(|layout| layout.with_stripes(stripes)).collect();
        Self { layouts, longest_bytes }
    }

    /// The layout that a rule chooses.
    pub fn by(&self, rule: Rule) -> &Layout {
        let in_stream = match rule {
            Rule::Map => false,
            Rule::Stream => true,
            Rule::BySize => self.longest_bytes > THRESHOLD_BYTES,
        };
        if !in_stream {
            return &self.layouts[0];
        }
        let most = |layout: &&Layout| {
            let slots =
                layout.tables().filter(|(_, place)| matches!(place, TableLocation::Slots { .. }));
            let header = layout.header == HeaderLocation::Stream;
            (layout.tables().count(), slots.count(), header)
        };
        // Of equal layouts it takes the first, which is the plainest.
        self.layouts.iter().rev().max_by_key(most).unwrap_or(&self.layouts[0])
    }
}

#[cfg(test)]
mod tests {
    use nacre_brados::layout::Stripes;

    use super::*;

    #[test]
    fn every_layout_has_the_stripes_of_the_program() {
        let source =
            format!("{}\nlayout stripes: 4\n", include_str!("../../../programs/class/lock.brados"));
        let compiled = nacre_brados::compile(&source).unwrap();
        let candidates = Candidates::of(&compiled, 100);
        assert!(candidates.layouts.len() > 1);
        for layout in candidates.layouts {
            let source = nacre_brados::with_layout(&source, &layout, &[]);
            let compiled = nacre_brados::compile(&source).unwrap();
            assert_eq!(compiled.analysis.program.layout().stripes, Stripes::Count(4), "{layout}");
        }
    }
}
