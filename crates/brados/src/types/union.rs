//! Sets of columns and expressions that must have the same type.

use crate::span::Span;
use nacre_calls::Base;

/// A column or an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Var(usize);

#[derive(Debug, Clone, Copy)]
enum Evidence {
    Nothing,
    /// A quoted string: `string` or `bytes`.
    Text(Span),
    Base(Base, Span),
}

/// Two types that cannot be united, each with the position that decided it.
pub(super) struct Clash {
    pub left: (Base, Span),
    pub right: (Base, Span),
}

/// A union–find of [`Var`]s.
#[derive(Debug, Default)]
pub(super) struct Types {
    parents: Vec<usize>,
    evidence: Vec<Evidence>,
}

impl Types {
    pub fn unknown(&mut self) -> Var {
        self.add(Evidence::Nothing)
    }

    pub fn text(&mut self, span: Span) -> Var {
        self.add(Evidence::Text(span))
    }

    pub fn known(&mut self, base: Base, span: Span) -> Var {
        self.add(Evidence::Base(base, span))
    }

    fn add(&mut self, evidence: Evidence) -> Var {
        self.parents.push(self.parents.len());
        self.evidence.push(evidence);
        Var(self.parents.len() - 1)
    }

    fn root(&mut self, Var(mut at): Var) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    /// The type of a variable, if it is known.
    pub fn get(&mut self, var: Var) -> Option<Base> {
        let root = self.root(var);
        match self.evidence[root] {
            Evidence::Nothing => None,
            Evidence::Text(_) => Some(Base::String),
            Evidence::Base(base, _) => Some(base),
        }
    }

    /// The final type of a variable.
    pub fn base(&mut self, var: Var) -> Base {
        self.get(var).unwrap_or(Base::Bytes)
    }

    /// Makes both the same type.
    pub fn unite(&mut self, left: Var, right: Var) -> Result<(), Clash> {
        let (left, right) = (self.root(left), self.root(right));
        if left == right {
            return Ok(());
        }
        let evidence = match (self.evidence[left], self.evidence[right]) {
            (Evidence::Nothing, other) | (other, Evidence::Nothing) => other,
            (Evidence::Text(_), Evidence::Base(base @ (Base::String | Base::Bytes), span))
            | (Evidence::Base(base @ (Base::String | Base::Bytes), span), Evidence::Text(_)) => {
                Evidence::Base(base, span)
            }
            (Evidence::Text(span), Evidence::Text(_)) => Evidence::Text(span),
            (Evidence::Base(a, span), Evidence::Base(b, _)) if a == b => Evidence::Base(a, span),
            (a, b) => return Err(Clash { left: named(a), right: named(b) }),
        };
        self.parents[right] = left;
        self.evidence[left] = evidence;
        Ok(())
    }
}

fn named(evidence: Evidence) -> (Base, Span) {
    match evidence {
        Evidence::Base(base, span) => (base, span),
        Evidence::Text(span) => (Base::String, span),
        Evidence::Nothing => (Base::Bytes, Span::default()),
    }
}
