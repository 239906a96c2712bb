//! Where in a source something is.

/// A range of bytes of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// From the start of this one to the end of another.
    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.end) }
    }

    /// The part of the source it names.
    pub fn text(self, source: &str) -> &str {
        source.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Where the lines of a source begin.
#[derive(Debug, Clone)]
pub struct LineIndex {
    starts: Vec<u32>,
}

/// A position for people: line and column count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineColumn {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl LineIndex {
    /// The lines of `source`.
    pub fn new(source: &str) -> Self {
        let breaks = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1));
        Self { starts: starts.collect() }
    }

    /// The line, from 1, of a byte.
    pub fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    /// The line and column of a byte of `source`, of which this is the index.
    pub fn place(&self, source: &str, offset: u32) -> LineColumn {
        let line = self.line(offset);
        let start = self.starts[line as usize - 1] as usize;
        let before = source.get(start..offset as usize).unwrap_or_default();
        LineColumn { line, column: before.chars().count() as u32 + 1 }
    }
}
