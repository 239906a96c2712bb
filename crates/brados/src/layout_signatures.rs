//! Finds out from an object's data in which layout the object is. Code that examines objects
//! without calling their class uses this.

use crate::compile::Compiled;
use crate::emit;

pub use crate::emit::LAYOUT_KEY;

/// The state of an object with respect to its class's layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// In the class's present layout.
    Settled,
    /// In a former layout, or between one and the present one.
    Elsewhere,
    /// The object does not belong to the class.
    Foreign,
}

/// The beginning of an object's entry [`LAYOUT_KEY`], for each layout that the class knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutSignatures {
    /// The present layout's first.
    signatures: Vec<String>,
}

impl LayoutSignatures {
    /// The marks of a program.
    pub fn of(compiled: &Compiled) -> Self {
        let (program, views) = (&compiled.analysis.program, &compiled.plan.views);
        Self { signatures: emit::signatures(program, views) }
    }

    /// The state of the object that has this entry.
    pub fn whereabouts(&self, entry: &[u8]) -> Whereabouts {
        // The entry begins with a letter, which says whether the object is migrating, and the
        // digits of a layout.
        let is = |signature: &&String| entry.starts_with(signature.as_bytes());
        let concerns = |signature: &&String| {
            entry.get(1..).is_some_and(|rest| rest.starts_with(&signature.as_bytes()[1..]))
        };
        match self.signatures.first().filter(is) {
            Some(_) => Whereabouts::Settled,
            None if self.signatures.iter().any(|one| concerns(&one)) => Whereabouts::Elsewhere,
            None => Whereabouts::Foreign,
        }
    }

    /// Whether an object of one class could be taken for an object of the other.
    pub fn overlap(&self, other: &Self) -> bool {
        self.signatures.iter().any(|one| other.signatures.contains(one))
    }
}
