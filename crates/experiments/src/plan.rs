//! What a figure measures.

use std::time::Duration;

use crate::strategy::Strategy;

/// What workers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// They append.
    Appends,
    /// They read entries at random of so many.
    RandomReads(u64),
}

/// What a figure is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// Entries of these sizes, in bytes.
    Sizes(Vec<usize>),
    /// The axis is time: this many spans one after another, with entries of one size.
    Time { spans: usize, bytes: usize },
}

/// What is measured for a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) work: Work,
    pub(crate) over: Over,
}

impl Plan {
    /// The strategies, in the order in which they take turns.
    pub fn strategies(&self) -> &[Strategy] {
        &self.strategies
    }

    /// How many points each strategy has.
    pub fn points(&self) -> usize {
        match &self.over {
            Over::Sizes(sizes) => sizes.len(),
            Over::Time { spans, .. } => *spans,
        }
    }

    /// Bytes of the entries of a point.
    pub(crate) fn bytes(&self, at: usize) -> usize {
        match &self.over {
            Over::Sizes(sizes) => sizes[at],
            Over::Time { bytes, .. } => *bytes,
        }
    }

    /// Where a point is on the axis: bytes, or seconds at its end.
    pub(crate) fn x(&self, at: usize, span: Duration) -> f64 {
        match &self.over {
            Over::Sizes(sizes) => sizes[at] as f64,
            Over::Time { .. } => (at + 1) as f64 * span.as_secs_f64(),
        }
    }
}
