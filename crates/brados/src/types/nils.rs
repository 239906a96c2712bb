//! Where nil may be.
//!
//! A column whose type is written holds nil only if it says so, and so does an input's. Any other
//! may be nil as soon as something that may be is written into it.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Function, Program, Rule, Select};
use crate::span::Span;
use crate::syntax::ast::{BinaryOp, Kind};
use crate::value::Value;

pub(super) fn infer(program: &mut Program, source: &str, diagnostics: &mut Diagnostics) {
    spread(program);
    for rule in &program.rules {
        check_rule(program, rule, source, diagnostics);
    }
}

/// Marks columns until nothing changes: each round marks one, so there are as many as columns.
fn spread(program: &mut Program) {
    loop {
        let mut found = vec![];
        for rule in &program.rules {
            for (column, (may_be_nil, _)) in written(program, rule).into_iter().enumerate() {
                let head = program.collection(rule.head);
                let own = &head.columns[column];
                let is_inferred = own.declared.is_none() && head.kind != Kind::Input;
                if may_be_nil && is_inferred && !own.ty.may_be_nil {
                    found.push((rule.head, column));
                }
            }
        }
        if found.is_empty() {
            return;
        }
        for (id, column) in found {
            program.collections[id.0].columns[column].ty.may_be_nil = true;
        }
    }
}

/// For each column of the head, whether the rule may write nil into it, and where.
fn written(program: &Program, rule: &Rule) -> Vec<(bool, Span)> {
    let of_input = |id: CollectionId, column: usize| {
        (program.collection(id).columns[column].ty.may_be_nil, rule.span)
    };
    match &rule.body {
        Body::Literal(rows) => {
            let width = rows.first().map_or(0, Vec::len);
            let has_nil = |at| rows.iter().any(|row| row[at] == Value::Nil);
            (0..width).map(|at| (has_nil(at), rule.span)).collect()
        }
        Body::Select(select) => {
            let column = |expr: &Expr| (may_be_nil(program, select, expr), expr.span);
            select.columns.iter().map(column).collect()
        }
        Body::Group(group) => {
            let keys = group.keys.iter().map(|key| of_input(group.input, *key));
            let defaults = group
                .aggregates
                .iter()
                .map(|aggregate| (aggregate.default == Some(Value::Nil), rule.span));
            keys.chain(defaults).collect()
        }
        Body::Extreme(extreme) => {
            let width = program.collection(extreme.input).width();
            (0..width).map(|column| of_input(extreme.input, column)).collect()
        }
    }
}

fn may_be_nil(program: &Program, select: &Select, expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(value) => *value == Value::Nil,
        ExprKind::Column { source, column } => {
            let ty = program.collection(select.sources[*source]).columns[*column].ty;
            ty.may_be_nil && !is_excluded(program, select, expr)
        }
        _ => false,
    }
}

/// Whether a condition of the join leaves only rows where this column is not nil.
fn is_excluded(program: &Program, select: &Select, expr: &Expr) -> bool {
    select.filters.iter().any(|filter| {
        let ExprKind::Binary(op, left, right) = &filter.kind else { return false };
        let other = match (left.kind == expr.kind, right.kind == expr.kind) {
            (true, false) => right,
            (false, true) => left,
            _ => return false,
        };
        match (op, &other.kind) {
            (BinaryOp::Unequal, ExprKind::Literal(value)) => *value == Value::Nil,
            // Nothing is less than nil or greater.
            (op, _) if op.is_ordering() => true,
            (BinaryOp::Equal, ExprKind::Literal(value)) => *value != Value::Nil,
            (BinaryOp::Equal, ExprKind::Column { source, column }) => {
                !program.collection(select.sources[*source]).columns[*column].ty.may_be_nil
            }
            _ => false,
        }
    })
}

fn check_rule(program: &Program, rule: &Rule, source: &str, diagnostics: &mut Diagnostics) {
    let head = program.collection(rule.head);
    for (column, (may_be_nil, span)) in written(program, rule).into_iter().enumerate() {
        let own = &head.columns[column];
        if may_be_nil && !own.ty.may_be_nil {
            let message =
                format!("`{}` of `{}` is never nil, and this may be", own.name, head.name);
            let help = format!(
                "declare it as `:{}:{}?`, or leave out rows with nil: `… if x.column != nil`",
                own.name,
                own.ty.base.as_str()
            );
            diagnostics
                .add(Diagnostic::error(span, message).note(own.span, "declared here").help(help));
        }
    }
    match &rule.body {
        Body::Select(select) => select.exprs().for_each(|expr| {
            check_operands(program, select, expr, source, diagnostics);
        }),
        Body::Group(group) => {
            let columns = group.aggregates.iter().filter(|one| one.function != Function::Count);
            for column in columns.filter_map(|aggregate| aggregate.column) {
                check_aggregated(program, group.input, column, rule.span, diagnostics);
            }
        }
        Body::Extreme(extreme) => {
            check_aggregated(program, extreme.input, extreme.column, rule.span, diagnostics);
        }
        Body::Literal(_) => {}
    }
}

/// Numbers that are computed with must be there.
fn check_operands(
    program: &Program,
    select: &Select,
    expr: &Expr,
    source: &str,
    diagnostics: &mut Diagnostics,
) {
    expr.visit(&mut |expr| {
        let operands = match &expr.kind {
            ExprKind::Binary(op, left, right) if !op.is_condition() => vec![left, right],
            ExprKind::Negate(inner) => vec![inner],
            _ => return,
        };
        for operand in operands {
            // An absence's predicate looks at one source more.
            let is_of_join = operand.sources() < 1 << select.sources.len();
            if is_of_join && may_be_nil(program, select, operand) {
                let message = format!("`{}` may be nil", operand.span.text(source));
                let help = "leave out rows with nil by a condition: `… if x.column != nil`";
                diagnostics.add(Diagnostic::error(operand.span, message).help(help));
            }
        }
    });
}

fn check_aggregated(
    program: &Program,
    input: CollectionId,
    column: usize,
    span: Span,
    diagnostics: &mut Diagnostics,
) {
    let collection = program.collection(input);
    if collection.columns[column].ty.may_be_nil {
        let name = &collection.columns[column].name;
        let message =
            format!("`{name}` of `{}` may be nil and so cannot be aggregated", collection.name);
        let help = format!("put the rows where `{name} != nil` into a `temp` first");
        diagnostics.add(Diagnostic::error(span, message).help(help));
    }
}
