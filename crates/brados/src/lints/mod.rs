//! Rules that mean something, but hardly what was meant; and the one into a table that cannot hold.

mod constants;
mod containment;
mod usage;

use std::collections::HashSet;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Body, CollectionId, ExprKind, Program, Select};
use crate::span::Span;
use crate::syntax::ast::{BinaryOp, Kind};
use crate::syntax::token::MergeOp;

/// Looks for all of them.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    usage::check(program, diagnostics);
    constants::check(program, diagnostics);
    containment::check(program, diagnostics);
    for rule in &program.rules {
        if let Body::Select(select) = &rule.body {
            check_product(program, select, rule.span, diagnostics);
        }
        if rule.op == MergeOp::Now && program.collection(rule.head).kind == Kind::Table {
            check_aggregate_into_table(program, rule.head, &rule.body, rule.span, diagnostics);
        }
    }
}

/// A join of collections that nothing connects, each of which may have many rows: of an input there is the
/// request alone.
fn check_product(program: &Program, select: &Select, span: Span, diagnostics: &mut Diagnostics) {
    let may_be_many = |source: &usize| {
        let collection = program.collection(select.sources[*source]);
        !collection.is_singleton() && collection.kind != Kind::Input
    };
    let many: Vec<_> = (0..select.sources.len()).filter(may_be_many).collect();
    let connects = |sources: u32| sources.count_ones() > 1;
    let is_joined = select.filters.iter().any(|filter| {
        matches!(filter.kind, ExprKind::Binary(BinaryOp::Equal, ..)) && connects(filter.sources())
    });
    if many.len() < 2 || is_joined {
        return;
    }
    let name = |source: usize| program.collection(select.sources[source]).name.as_str();
    let message = format!(
        "this pairs every row of `{}` with every row of `{}`",
        name(many[0]),
        name(many[1])
    );
    let help = "join on columns, `pairs(:a => :b)`; a table of at most one row is declared `[] => [:column]`";
    diagnostics.add(Diagnostic::warning(span, message).help(help));
}

/// `table <= aggregate`: the row of before stays, and the next one has another value for its key.
fn check_aggregate_into_table(
    program: &Program,
    head: CollectionId,
    body: &Body,
    span: Span,
    diagnostics: &mut Diagnostics,
) {
    let aggregated = aggregated_columns(program);
    let table = program.collection(head);
    let moving = (table.key_width..table.width()).find(|column| {
        columns_read(body, *column).iter().any(|read| aggregated.contains(read))
            || matches!(body, Body::Group(group) if *column >= group.keys.len())
    });
    if let Some(column) = moving {
        let message = format!(
            "`{}` of `{}` is an aggregate, and `<=` never replaces a row: it must conflict as soon as the aggregate moves",
            table.columns[column].name, table.name
        );
        let help = format!("write `{} <+- …` to replace the row by its key", table.name);
        diagnostics.add(Diagnostic::error(span, message).help(help));
    }
}

type ColumnId = (CollectionId, usize);

/// The columns that hold aggregates, by whatever way they came there.
fn aggregated_columns(program: &Program) -> HashSet<ColumnId> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for rule in program.rules.iter().filter(|rule| rule.op == MergeOp::Now) {
            for column in 0..program.collection(rule.head).width() {
                let is_aggregate = match &rule.body {
                    Body::Group(group) => column >= group.keys.len(),
                    body => columns_read(body, column).iter().any(|read| found.contains(read)),
                };
                if is_aggregate {
                    found.insert((rule.head, column));
                }
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The columns a column of the result is computed from.
fn columns_read(body: &Body, column: usize) -> Vec<ColumnId> {
    match body {
        Body::Select(select) => {
            let mut read = vec![];
            if let Some(expr) = select.columns.get(column) {
                expr.visit(&mut |expr| {
                    if let ExprKind::Column { source, column } = expr.kind {
                        read.push((select.sources[source], column));
                    }
                });
            }
            read
        }
        Body::Extreme(extreme) => vec![(extreme.input, column)],
        Body::Group(group) => {
            group.keys.get(column).map(|key| (group.input, *key)).into_iter().collect()
        }
        Body::Literal(_) => vec![],
    }
}
