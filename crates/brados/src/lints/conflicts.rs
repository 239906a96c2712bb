//! Warns of rules that can copy two different rows of a table to the same key of another relation,
//! which is a conflict.
//!
//! While the table has two such rows, every request that computes the relation fails.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Body, ExprKind, Program, Rule, Select};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    for rule in &program.rules {
        if let Body::Select(select) = &rule.body
            && may_store_conflict(program, rule, select)
        {
            diagnostics.add(warning(program, rule, select));
        }
    }
}

/// Whether a rule copies all rows of a table into a relation in memory, and the relation's key
/// lacks a column of the table's key.
fn may_store_conflict(program: &Program, rule: &Rule, select: &Select) -> bool {
    let head = program.collection(rule.head);
    let [source] = select.sources[..] else { return false };
    let table = program.collection(source);
    let is_in_memory = matches!(head.kind, Kind::Scratch | Kind::Temp | Kind::Output);
    // A condition may leave at most one row of each key.
    let is_whole = select.filters.is_empty() && select.absences.is_empty();
    let (key, values) = select.columns.split_at(head.key_width.min(select.columns.len()));
    let has_column = |column| {
        let wanted = ExprKind::Column { source: 0, column };
        key.iter().any(|expr| expr.kind == wanted)
    };
    rule.op == MergeOp::Now
        && is_in_memory
        && is_whole
        && table.kind == Kind::Table
        && values.iter().any(|value| !matches!(value.kind, ExprKind::Literal(_)))
        && !(0..table.key_width).all(has_column)
}

fn warning(program: &Program, rule: &Rule, select: &Select) -> Diagnostic {
    let (head, table) = (program.collection(rule.head), program.collection(select.sources[0]));
    let (name, table) = (&head.name, &table.name);
    let message = format!(
        "two rows of `{table}` may give `{name}` two rows of one key: what reads it then fails"
    );
    let keys: Vec<_> =
        head.columns[..head.key_width].iter().map(|column| format!(":{}", column.name)).collect();
    let help = format!(
        "choose one of them, as by `{table}.argmax([{}], …)`, or put all of the key of `{table}` into that of `{name}`",
        keys.join(", ")
    );
    Diagnostic::warning(rule.span, message).help(help)
}
