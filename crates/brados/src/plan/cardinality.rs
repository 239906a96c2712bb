//! How many rows each relation of a method may have.

use std::collections::BTreeMap;

use super::{Relation, Rows, View, parts};
use crate::ir::{CollectionId, Program};
use crate::syntax::ast::Kind;

/// How many rows the relations of a method may have, as far as is known.
pub(super) struct Cardinalities(BTreeMap<Relation, Rows>);

impl Cardinalities {
    /// The state before any rule: the request has one row, and tables may have rows.
    pub fn at_start(program: &Program, views: &[View], input: CollectionId) -> Self {
        let mut known = BTreeMap::new();
        known.insert(Relation::Local(input), Rows::One);
        for table in program.of_kind(Kind::Table) {
            known.insert(Relation::Stored(table), stored(program, table));
        }
        for view in views {
            known.insert(Relation::View(view.collection), stored(program, view.collection));
        }
        Self(known)
    }

    pub fn get(&self, relation: Relation) -> Rows {
        self.0.get(&relation).copied().unwrap_or(Rows::Empty)
    }

    pub fn set(&mut self, relation: Relation, rows: Rows) {
        self.0.insert(relation, rows);
    }

    /// The relations that together are a collection, without those that are empty.
    pub fn parts(&self, program: &Program, views: &[View], id: CollectionId) -> Vec<Relation> {
        let mut parts = parts(program, views, id);
        parts.retain(|part| self.get(*part) != Rows::Empty);
        parts
    }

    pub fn into_vec(self) -> Vec<(Relation, Rows)> {
        self.0.into_iter().filter(|(_, rows)| *rows != Rows::Empty).collect()
    }
}

fn stored(program: &Program, id: CollectionId) -> Rows {
    if program.collection(id).is_singleton() { Rows::One } else { Rows::Many }
}

impl Rows {
    /// The number of rows of a join.
    pub(super) fn times(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, _) | (_, Self::Empty) => Self::Empty,
            (one, other) => one.max(other),
        }
    }

    /// The number of rows of two relations together.
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, other) | (other, Self::Empty) => other,
            _ => Self::Many,
        }
    }
}
