//! Warns of `a.notin(b)` if all rows of `a` come from `b`: the result is always empty. Deleting
//! rows from `b` does not change this, because deletions happen at the end of the request.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Absence, Body, CollectionId, Expr, ExprKind, Program, Select};
use crate::syntax::ast::BinaryOp;
use crate::syntax::token::MergeOp;

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    for rule in &program.rules {
        let Body::Select(select) = &rule.body else { continue };
        let [source] = select.sources.as_slice() else { continue };
        for absence in &select.absences {
            if compares_whole_rows(program, absence)
                && is_part_of(program, *source, absence.relation)
            {
                let (a, b) =
                    (&program.collection(*source).name, &program.collection(absence.relation).name);
                let message =
                    format!("`{a}.notin({b})` is always empty: every row of `{a}` is in `{b}`");
                let warning = Diagnostic::warning(absence.span, message);
                let is_deleted = program
                    .rules
                    .iter()
                    .any(|rule| rule.head == absence.relation && rule.op == MergeOp::Delete);
                let help = is_deleted.then(|| {
                    format!("`<-` deletes at the end of the request: until then `{b}` is what it was; leave the deleted rows out of it in a `temp` and look there")
                });
                diagnostics.add(warning.maybe_help(help));
            }
        }
    }
}

fn compares_whole_rows(program: &Program, absence: &Absence) -> bool {
    let width = program.collection(absence.relation).width();
    absence.predicate.is_none()
        && absence.equal.len() == width
        && absence.equal.iter().all(|(column, expr)| {
            matches!(expr.kind, ExprKind::Column { column: own, .. } if own == *column)
        })
}

/// Whether the rules of `part` produce only rows of `whole`.
fn is_part_of(program: &Program, part: CollectionId, whole: CollectionId) -> bool {
    if part == whole {
        return true;
    }
    let mut rules = program.rules.iter().filter(|rule| rule.head == part).peekable();
    let has_rules = rules.peek().is_some();
    has_rules
        && rules.all(|rule| match &rule.body {
            Body::Select(select) => {
                let sources = 0..select.sources.len();
                sources
                    .filter(|source| select.sources[*source] == whole)
                    .any(|source| projects(program, select, source))
            }
            _ => false,
        })
}

/// Whether the columns of the result are those of a source, or equal to them.
fn projects(program: &Program, select: &Select, source: usize) -> bool {
    let width = program.collection(select.sources[source]).width();
    select.columns.len() == width
        && select.columns.iter().enumerate().all(|(column, expr)| {
            let wanted = ExprKind::Column { source, column };
            expr.kind == wanted
                || select.filters.iter().any(|filter| equates(filter, expr, &wanted))
        })
}

fn equates(filter: &Expr, one: &Expr, other: &ExprKind) -> bool {
    let ExprKind::Binary(BinaryOp::Equal, left, right) = &filter.kind else { return false };
    (left.kind == one.kind && right.kind == *other)
        || (right.kind == one.kind && left.kind == *other)
}
