//! What an IO does to its object.

use std::fmt;

use nacre_object::{Error, Result};

/// One kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// It reads.
    Read,
    /// It changes what is there.
    Write,
    /// It may bring the object into being.
    Create,
    /// It removes the object.
    Delete,
}

impl Operation {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Create, Self::Delete];

    /// The letter by which rules name it.
    pub const fn letter(self) -> char {
        match self {
            Self::Read => 'r',
            Self::Write => 'w',
            Self::Create => 'c',
            Self::Delete => 'd',
        }
    }

    /// The word by which programs know it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }

    /// Whether it changes the object.
    pub const fn is_change(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Parses the letter.
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.letter() == letter)
    }
}

/// Some operations, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operations(u8);

impl Operations {
    /// All of them, written `*`.
    pub const ALL: Self = Self(0b1111);

    /// These operations; `None` if there are none.
    pub fn of(operations: impl IntoIterator<Item = Operation>) -> Option<Self> {
        let bits = operations.into_iter().fold(0, |bits, operation| bits | bit(operation));
        (bits != 0).then_some(Self(bits))
    }

    /// Whether this one is among them.
    pub fn contains(self, operation: Operation) -> bool {
        self.0 & bit(operation) != 0
    }

    /// Whether all of `other` are among them.
    pub fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether they have one in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The operations, in declaration order.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().filter(move |operation| self.contains(*operation))
    }

    /// Parses `*` or letters of `rwcd`.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "*" {
            return Ok(Self::ALL);
        }
        let letters: Option<Vec<_>> = text.chars().map(Operation::from_letter).collect();
        letters.and_then(Self::of).ok_or_else(|| {
            Error::invalid(format!("{text:?} names no operations"))
                .hint("write * or some of the letters r (read), w (write), c (create), d (delete)")
        })
    }
}

fn bit(operation: Operation) -> u8 {
    1 << operation as u8
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("*"),
            some => some.iter().try_for_each(|operation| write!(f, "{}", operation.letter())),
        }
    }
}
