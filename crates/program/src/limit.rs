//! The parts of a budget, by name.

/// Which part of the budget was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Its time.
    Time,
    /// Its calls, loop iterations and pattern-matcher steps.
    Steps,
    /// Its memory.
    Memory,
    /// The size of the output.
    Output,
}

impl Limit {
    /// Every limit, in declaration order.
    pub const ALL: [Limit; 4] = [Self::Time, Self::Steps, Self::Memory, Self::Output];

    /// The limit's name, as metrics give it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Steps => "steps",
            Self::Memory => "memory",
            Self::Output => "output",
        }
    }

    /// The limit that a word is for.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.as_str() == word)
    }
}
