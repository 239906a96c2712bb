//! Sets of columns and expressions that hold the same type.

use crate::span::Span;
use nacre_calls::Base;

/// A column or an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Var(usize);

#[derive(Debug, Clone, Copy)]
enum Known {
    Nothing,
    /// A quoted text: a string or bytes.
    Text(Span),
    Base(Base, Span),
}

/// Two types that cannot be one, each with the place that decided it.
pub(super) struct Clash {
    pub left: (Base, Span),
    pub right: (Base, Span),
}

/// A union–find of [`Var`]s.
#[derive(Debug, Default)]
pub(super) struct Types {
    parents: Vec<usize>,
    known: Vec<Known>,
}

impl Types {
    pub fn unknown(&mut self) -> Var {
        self.add(Known::Nothing)
    }

    pub fn text(&mut self, span: Span) -> Var {
        self.add(Known::Text(span))
    }

    pub fn known(&mut self, base: Base, span: Span) -> Var {
        self.add(Known::Base(base, span))
    }

    fn add(&mut self, known: Known) -> Var {
        self.parents.push(self.parents.len());
        self.known.push(known);
        Var(self.parents.len() - 1)
    }

    fn root(&mut self, Var(mut at): Var) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    /// What is known of it.
    pub fn get(&mut self, var: Var) -> Option<Base> {
        let root = self.root(var);
        match self.known[root] {
            Known::Nothing => None,
            Known::Text(_) => Some(Base::String),
            Known::Base(base, _) => Some(base),
        }
    }

    /// What it is, in the end.
    pub fn base(&mut self, var: Var) -> Base {
        self.get(var).unwrap_or(Base::Bytes)
    }

    /// Makes both the same type.
    pub fn unite(&mut self, left: Var, right: Var) -> Result<(), Clash> {
        let (left, right) = (self.root(left), self.root(right));
        if left == right {
            return Ok(());
        }
        let known = match (self.known[left], self.known[right]) {
            (Known::Nothing, other) | (other, Known::Nothing) => other,
            (Known::Text(_), Known::Base(base @ (Base::String | Base::Bytes), span))
            | (Known::Base(base @ (Base::String | Base::Bytes), span), Known::Text(_)) => {
                Known::Base(base, span)
            }
            (Known::Text(span), Known::Text(_)) => Known::Text(span),
            (Known::Base(a, span), Known::Base(b, _)) if a == b => Known::Base(a, span),
            (a, b) => return Err(Clash { left: named(a), right: named(b) }),
        };
        self.parents[right] = left;
        self.known[left] = known;
        Ok(())
    }
}

fn named(known: Known) -> (Base, Span) {
    match known {
        Known::Base(base, span) => (base, span),
        Known::Text(span) => (Base::String, span),
        Known::Nothing => (Base::Bytes, Span::default()),
    }
}
