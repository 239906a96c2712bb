//! Which aggregates are kept up to date.
//!
//! An aggregate straight over a table is stored beside it and changed with it, so that reading it
//! costs one lookup however many rows the table has. A table with `<=` rules has rows that are seen
//! before they are stored; aggregates over it are computed.

use crate::ir::{Aggregate, Body, CollectionId, Function, Program};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// An aggregate over a table that is kept up to date.
#[derive(Debug, Clone)]
pub struct View {
    /// The collection that is this aggregate.
    pub collection: CollectionId,
    /// The table.
    pub table: CollectionId,
    /// The rule that says so.
    pub rule: usize,
    /// The columns of the table by which it is grouped.
    pub keys: Vec<usize>,
    /// What is kept of each group.
    pub aggregates: Vec<Aggregate>,
    /// How it is called where it is stored: two programs that mean the same call it the same.
    pub name: String,
}

impl View {
    /// Whether removing a row may take more than a subtraction.
    pub fn needs_repair(&self) -> bool {
        self.aggregates.iter().any(|one| matches!(one.function, Function::Max | Function::Min))
    }
}

pub(super) fn find(program: &Program) -> Vec<View> {
    let mut views = vec![];
    for (rule, of) in program.rules.iter().enumerate() {
        let Body::Group(group) = &of.body else { continue };
        let head_kind = program.collection(of.head).kind;
        let is_derived = matches!(head_kind, Kind::Temp | Kind::Scratch);
        let is_only = program.rules.iter().filter(|other| other.head == of.head).count() == 1;
        if !is_derived || !is_only || !is_stored_only(program, group.input) {
            continue;
        }
        views.push(View {
            collection: of.head,
            table: group.input,
            rule,
            keys: group.keys.clone(),
            aggregates: group.aggregates.clone(),
            name: name(program, group.input, &group.keys, &group.aggregates),
        });
    }
    views
}

fn is_stored_only(program: &Program, id: CollectionId) -> bool {
    let is_added_to = |rule: &crate::ir::Rule| rule.head == id && rule.op == MergeOp::Now;
    program.collection(id).kind == Kind::Table && !program.rules.iter().any(is_added_to)
}

fn name(
    program: &Program,
    table: CollectionId,
    keys: &[usize],
    aggregates: &[Aggregate],
) -> String {
    let table = program.collection(table);
    let column = |at: &usize| table.columns[*at].name.clone();
    let keys: Vec<_> = keys.iter().map(column).collect();
    let aggregates = aggregates.iter().map(|one| {
        let of = one.column.as_ref().map(column).unwrap_or_default();
        format!("{}({of})", one.function.as_str())
    });
    let aggregates: Vec<_> = aggregates.collect();
    format!("{}#{}#{}", table.name, keys.join(","), aggregates.join(","))
}
