//! Finds the aggregates that an object stores and keeps up to date.
//!
//! An aggregate directly over a table is stored beside the table and changed with it. So reading it
//! costs one look-up, however many rows the table has. The greatest and least key of a table in the
//! map need not even be stored: they are in the table's last and first row. An aggregate over a
//! table with `<=` rules is not stored but computed, because a request sees some rows of that table
//! before they are stored.
//!
//! **Invariant:** a stored aggregate is found by the key of its group, encoded as in the table. An
//! aggregate that is declared as a `scratch` with another key (`scratch :n, [:count]`) is computed
//! and not stored: two groups may get the same key, which is a conflict, and only the computation
//! finds it.

use crate::ir::{Aggregate, Body, CollectionId, Function, Group, Program};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;
use nacre_calls::Base;

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
    /// The aggregates of each group.
    pub aggregates: Vec<Aggregate>,
    /// The end of the table that it is.
    pub edge: Option<Edge>,
    /// The name under which the aggregate is stored. Two programs with the same aggregate use the
    /// same name.
    pub name: String,
}

/// An end of a table, in the order of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Its first row.
    First,
    /// Its last.
    Last,
}

/// How an aggregate is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptAs {
    /// The aggregate is not stored. It is the greatest or least key of a table that is in the map
    /// in every layout, so it is read from the table.
    Edge(Edge),
    /// The aggregate is stored in the header, without a count of rows. It is the greatest or least
    /// key of a table that is outside the map in some layout.
    EdgeInHeader(Edge),
    /// The aggregate of a whole table, stored in the header.
    Header,
    /// Aggregates of groups, each stored in an entry of the map.
    Entries,
}

impl View {
    /// How it is kept.
    pub fn kept_as(&self, program: &Program) -> KeptAs {
        match self.edge {
            Some(edge) if program.is_placed(self.table) => KeptAs::EdgeInHeader(edge),
            Some(edge) => KeptAs::Edge(edge),
            None if self.keys.is_empty() => KeptAs::Header,
            None => KeptAs::Entries,
        }
    }

    /// Whether the aggregate stores values that change with its table.
    pub(crate) fn is_kept(&self, program: &Program) -> bool {
        !matches!(self.kept_as(program), KeptAs::Edge(_))
    }

    /// Whether the removal of a row may need more than a subtraction.
    pub fn needs_repair(&self) -> bool {
        self.aggregates.iter().any(|one| matches!(one.function, Function::Max | Function::Min))
    }

    /// Whether a state has sums.
    pub fn has_sums(&self) -> bool {
        self.aggregates.iter().any(|one| matches!(one.function, Function::Sum | Function::Avg))
    }
}

pub(super) fn find(program: &Program) -> Vec<View> {
    let mut views = vec![];
    for (rule, of) in program.rules.iter().enumerate() {
        let Body::Group(group) = &of.body else { continue };
        let is_derived = matches!(program.collection(of.head).kind, Kind::Temp | Kind::Scratch);
        let is_only = program.rules.iter().filter(|other| other.head == of.head).count() == 1;
        let is_keepable =
            is_stored_only(program, group.input) && has_key_of(program, of.head, group);
        if !is_derived || !is_only || !is_keepable {
            continue;
        }
        views.push(View {
            collection: of.head,
            table: group.input,
            rule,
            keys: group.keys.clone(),
            aggregates: group.aggregates.clone(),
            edge: edge(program, group),
            name: name(program, group.input, &group.keys, &group.aggregates),
        });
    }
    views
}

/// Tells whether an aggregate is the greatest or least key of its table, for a key that is one
/// number. The map keeps such keys in order, so this is the table's last or first row.
fn edge(program: &Program, group: &Group) -> Option<Edge> {
    let table = program.collection(group.input);
    let key = table.columns.first()?.ty;
    let is_ordered = table.key_width == 1 && key.base == Base::Int && !key.may_be_nil;
    let is_of = |function| {
        group.aggregates.iter().all(|one| one.function == function && one.column == Some(0))
    };
    if !is_ordered || !group.keys.is_empty() || group.aggregates.is_empty() {
        None
    } else if is_of(Function::Max) {
        Some(Edge::Last)
    } else {
        is_of(Function::Min).then_some(Edge::First)
    }
}

/// Whether a collection has the key of the group, written in the same way.
fn has_key_of(program: &Program, head: CollectionId, group: &Group) -> bool {
    let (head, table) = (program.collection(head), program.collection(group.input));
    let own = head.columns.iter().map(|column| column.ty);
    let keys = group.keys.iter().map(|key| table.columns[*key].ty);
    head.key_width == group.keys.len() && own.zip(keys).all(|(own, key)| own == key)
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
