//! Finds the columns that may be nil.
//!
//! A column of an input, or one with a declared type, may be nil only if its declaration says so.
//! Any other column may be nil once a rule writes a value into it that may be nil.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Absence, Body, CollectionId, Expr, ExprKind, Function, Program, Rule, Select};
use crate::span::Span;
use crate::syntax::ast::{BinaryOp, Kind};
use nacre_calls::Value;

pub(super) fn infer(program: &mut Program, source: &str, diagnostics: &mut Diagnostics) {
    spread(program);
    for rule in &program.rules {
        check_rule(program, rule, source, diagnostics);
    }
}

/// Marks the columns that may be nil, in rounds, until a round marks nothing. So there is at most
/// one more round than there are columns.
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
            let facts = Facts::of_result(program, select);
            let column = |expr: &Expr| (facts.may_be_nil(expr), expr.span);
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

/// Facts about the rows where an expression is computed.
struct Facts<'a> {
    program: &'a Program,
    sources: Vec<CollectionId>,
    /// Conditions that hold there.
    conditions: Vec<&'a Expr>,
}

impl<'a> Facts<'a> {
    /// The facts about the rows that a join produces.
    fn of_result(program: &'a Program, select: &'a Select) -> Self {
        let conditions = select.filters.iter().collect();
        Self { program, sources: select.sources.clone(), conditions }
    }

    /// What is known about the rows when a part of a condition is computed. `sources` are the
    /// relations whose rows this part uses. All conditions on these relations that compute nothing
    /// have been tested before, so they hold.
    fn within(program: &'a Program, select: &'a Select, sources: u32) -> Self {
        let mut facts = Self::of_result(program, select);
        facts.conditions.retain(|one| !one.computes() && one.sources() & !sources == 0);
        facts
    }

    /// The facts for the condition of an absence, which has one more source.
    fn in_predicate(program: &'a Program, select: &'a Select, absence: &'a Absence) -> Self {
        let mut facts = Self::of_result(program, select);
        facts.sources.push(absence.relation);
        let own = absence.predicate.iter().flat_map(|predicate| conjuncts(predicate));
        facts.conditions.extend(own.filter(|one| !one.computes()));
        facts
    }

    fn may_be_nil(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Literal(value) => *value == Value::Nil,
            ExprKind::Column { source, column } => {
                self.column(*source, *column) && !self.is_excluded(expr)
            }
            _ => false,
        }
    }

    fn column(&self, source: usize, column: usize) -> bool {
        self.program.collection(self.sources[source]).columns[column].ty.may_be_nil
    }

    /// Whether a condition leaves only rows where this column is not nil.
    fn is_excluded(&self, expr: &Expr) -> bool {
        self.conditions.iter().any(|condition| {
            let ExprKind::Binary(op, left, right) = &condition.kind else { return false };
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
                    !self.column(*source, *column)
                }
                _ => false,
            }
        })
    }
}

/// The conditions of which this is the conjunction.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match &condition.kind {
        ExprKind::Binary(BinaryOp::And, left, right) => {
            [conjuncts(left), conjuncts(right)].concat()
        }
        _ => vec![condition],
    }
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
        Body::Select(select) => check_select(program, select, source, diagnostics),
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
fn check_select<'a>(
    program: &'a Program,
    select: &'a Select,
    source: &str,
    diagnostics: &mut Diagnostics,
) {
    let mut check = |facts: &dyn Fn() -> Facts<'a>, part: &Expr| {
        let operands = operands(part);
        if !operands.is_empty() {
            check_operands(&facts(), &operands, source, diagnostics);
        }
    };
    for filter in &select.filters {
        filter.visit(&mut |part| check(&|| Facts::within(program, select, part.sources()), part));
    }
    let equal = select.absences.iter().flat_map(|absence| &absence.equal);
    for expr in select.columns.iter().chain(equal.map(|(_, expr)| expr)) {
        expr.visit(&mut |part| check(&|| Facts::of_result(program, select), part));
    }
    for absence in &select.absences {
        if let Some(predicate) = &absence.predicate {
            predicate
                .visit(&mut |part| check(&|| Facts::in_predicate(program, select, absence), part));
        }
    }
}

/// The operands with which an expression itself computes, without those of nested expressions.
fn operands(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Binary(op, left, right) if !op.is_condition() => vec![left, right],
        ExprKind::Negate(inner) => vec![inner],
        _ => vec![],
    }
}

fn check_operands(
    facts: &Facts<'_>,
    operands: &[&Expr],
    source: &str,
    diagnostics: &mut Diagnostics,
) {
    for operand in operands.iter().filter(|operand| facts.may_be_nil(operand)) {
        let message = format!("`{}` may be nil", operand.span.text(source));
        let help = "leave out rows with nil by a condition: `… if x.column != nil`";
        diagnostics.add(Diagnostic::error(operand.span, message).help(help));
    }
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
