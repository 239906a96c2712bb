//! Warns of valid rules that probably do not mean what their author wanted. Also refuses rules that
//! write into a table but can never work.

mod conflicts;
mod constants;
mod containment;
mod usage;

use std::collections::HashSet;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Program, Select};
use crate::span::Span;
use crate::syntax::ast::{BinaryOp, Kind};
use crate::syntax::token::MergeOp;

/// Looks for all of them.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    usage::check(program, diagnostics);
    constants::check(program, diagnostics);
    conflicts::check(program, diagnostics);
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

/// Warns of a join of two collections that no condition connects, if both may have many rows.
fn check_product(program: &Program, select: &Select, span: Span, diagnostics: &mut Diagnostics) {
    let many = sources_of_many(program, select);
    // The first of many rows in each part.
    let mut apart: Vec<_> = connected_sources(select)
        .into_iter()
        .filter(|part| part & many != 0)
        .map(|part| (part & many).trailing_zeros() as usize)
        .collect();
    apart.sort_unstable();
    let [first, second, ..] = apart[..] else { return };
    let name = |source: usize| program.collection(select.sources[source]).name.as_str();
    let message =
        format!("this pairs every row of `{}` with every row of `{}`", name(first), name(second));
    let help = "join on columns, `pairs(:a => :b)`; a table of at most one row is declared `[] => [:column]`";
    diagnostics.add(Diagnostic::warning(span, message).help(help));
}

/// The collections of a join that may have many rows, as a bit set. Other collections have one row:
/// an input in a request, or a table whose whole key the join determines.
fn sources_of_many(program: &Program, select: &Select) -> u32 {
    let collection = |source: usize| program.collection(select.sources[source]);
    let all = 0..select.sources.len();
    let may_be_many = |source: &usize| {
        !collection(*source).is_singleton() && collection(*source).kind != Kind::Input
    };
    let mut many = all.clone().filter(may_be_many).fold(0, |bits, source| bits | 1 << source);
    loop {
        let is_looked_up = |source: &usize| {
            let column = |column| ExprKind::Column { source: *source, column };
            let mut key = (0..collection(*source).key_width).map(column);
            many & 1 << source != 0 && key.all(|column| is_given(select, &column, many))
        };
        let Some(source) = all.clone().find(is_looked_up) else { return many };
        many &= !(1 << source);
    }
}

/// Whether a condition makes a column equal to a value that comes from sources other than these.
fn is_given(select: &Select, column: &ExprKind, unknown: u32) -> bool {
    equalities(select).any(|(_, left, right)| {
        [(left, right), (right, left)]
            .iter()
            .any(|(one, other)| one.kind == *column && other.sources() & unknown == 0)
    })
}

/// Divides the collections of a join into sets, each a bit set. Collections that an equality
/// connects are in the same set.
fn connected_sources(select: &Select) -> Vec<u32> {
    let mut parts: Vec<u32> = (0..select.sources.len()).map(|source| 1 << source).collect();
    for (equality, ..) in equalities(select) {
        let sources = equality.sources();
        let (connected, apart): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part & sources != 0);
        parts = apart;
        parts.push(connected.into_iter().fold(0, |bits, part| bits | part));
    }
    parts
}

/// The conditions that require two values to be equal, as pairs of these values.
fn equalities(select: &Select) -> impl Iterator<Item = (&Expr, &Expr, &Expr)> {
    select.filters.iter().filter_map(|filter| match &filter.kind {
        ExprKind::Binary(BinaryOp::Equal, left, right) => Some((filter, &**left, &**right)),
        _ => None,
    })
}

/// Refuses `table <= aggregate`. The first request stores the aggregate's row in the table. Once
/// the aggregate has changed, a later request adds another row with the same key, which is a
/// conflict.
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

/// The columns whose values come from aggregates, directly or through other rules.
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

/// The columns from which a column of the result is computed.
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
