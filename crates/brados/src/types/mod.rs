//! Infers the type of each column, from the values that are written into it and compared with it.
//!
//! First it infers types: columns and expressions that must have the same type are united
//! ([`union`]). If nothing else determines the type of a column, the type is `string` if the column
//! is used with string literals, and otherwise `bytes`. Then it infers which columns may be nil:
//! nil passes from the columns that a rule reads to those that it writes ([`nils`]).

mod nils;
mod union;

use self::union::{Types, Var};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Function, Program, Rule, Select};
use crate::span::Span;
use crate::syntax::ast::BinaryOp;
use nacre_calls::{Base, Value};

/// Gives every column its type; contradictions are reported.
pub(crate) fn infer(program: &mut Program, source: &str, diagnostics: &mut Diagnostics) {
    let mut inference = Inference::new(program, source, diagnostics);
    program.rules.iter().for_each(|rule| inference.rule(rule));
    let bases = inference.bases();
    for (collection, bases) in program.collections.iter_mut().zip(bases) {
        for (column, base) in collection.columns.iter_mut().zip(bases) {
            column.ty.base = base;
        }
    }
    nils::infer(program, source, diagnostics);
}

struct Inference<'a> {
    program: &'a Program,
    source: &'a str,
    types: Types,
    /// The variable of each column.
    columns: Vec<Vec<Var>>,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> Inference<'a> {
    fn new(program: &'a Program, source: &'a str, diagnostics: &'a mut Diagnostics) -> Self {
        let mut types = Types::default();
        let mut columns = vec![];
        for collection in &program.collections {
            let vars = collection.columns.iter().map(|column| match column.declared {
                Some(ty) => types.known(ty.base, column.span),
                None => types.unknown(),
            });
            columns.push(vars.collect());
        }
        Self { program, source, types, columns, diagnostics }
    }

    fn bases(&mut self) -> Vec<Vec<Base>> {
        let types = &mut self.types;
        let base = |vars: &Vec<Var>| vars.iter().map(|var| types.base(*var)).collect();
        self.columns.iter().map(base).collect()
    }

    fn rule(&mut self, rule: &Rule) {
        match &rule.body {
            Body::Select(select) => {
                let columns =
                    select.columns.iter().map(|column| (self.expr(select, column), column.span));
                let columns: Vec<_> = columns.collect();
                self.conditions(select);
                for (at, (var, span)) in columns.into_iter().enumerate() {
                    self.written(rule.head, at, var, span);
                }
            }
            Body::Literal(rows) => {
                for (at, value) in rows.iter().flat_map(|row| row.iter().enumerate()) {
                    let var = self.value(value, rule.span);
                    let name = self.column_name(rule.head, at);
                    let own = self.columns[rule.head.0][at];
                    self.same(var, own, rule.span, &format!("`{value}`"), &name);
                }
            }
            Body::Group(group) => {
                let input = group.input;
                for (at, key) in group.keys.iter().enumerate() {
                    self.written(rule.head, at, self.columns[input.0][*key], rule.span);
                }
                for (at, aggregate) in group.aggregates.iter().enumerate() {
                    let column = aggregate.column.map(|column| self.columns[input.0][column]);
                    let result = self.aggregate(aggregate.function, column, rule.span);
                    if let Some(default) = &aggregate.default {
                        let default = self.value(default, rule.span);
                        self.same(default, result, rule.span, "the default", "the aggregate");
                    }
                    self.written(rule.head, group.keys.len() + at, result, rule.span);
                }
            }
            Body::Extreme(extreme) => {
                for at in 0..self.columns[extreme.input.0].len() {
                    self.written(rule.head, at, self.columns[extreme.input.0][at], rule.span);
                }
            }
        }
    }

    /// The type of an aggregate.
    fn aggregate(&mut self, function: Function, column: Option<Var>, span: Span) -> Var {
        match (function, column) {
            (Function::Max | Function::Min, Some(column)) => column,
            (Function::Sum | Function::Avg, Some(column)) => {
                self.must_be(
                    column,
                    Base::Int,
                    span,
                    &format!("what `{}` takes", function.as_str()),
                );
                column
            }
            _ => self.types.known(Base::Int, span),
        }
    }

    fn conditions(&mut self, select: &Select) {
        for filter in &select.filters {
            self.condition(select, filter);
        }
        for absence in &select.absences {
            let mut sources = select.sources.clone();
            for (column, expr) in &absence.equal {
                let (var, text) = self.operand(&sources, expr);
                let other = self.columns[absence.relation.0][*column];
                let what = self.column_name(absence.relation, *column);
                self.same(var, other, expr.span, &text, &what);
            }
            sources.push(absence.relation);
            if let Some(predicate) = &absence.predicate {
                let var = self.expr_of(&sources, predicate);
                self.must_be(var, Base::Bool, predicate.span, "this condition");
            }
        }
    }

    fn condition(&mut self, select: &Select, filter: &Expr) {
        let var = self.expr(select, filter);
        if let Some(base) = self.types.get(var).filter(|base| *base != Base::Bool) {
            let message = format!("this is no condition but {}", a(base));
            let help = format!(
                "compare it, or write `[{}]` for a row of it",
                filter.span.text(self.source)
            );
            self.diagnostics.add(Diagnostic::error(filter.span, message).help(help));
        } else {
            self.must_be(var, Base::Bool, filter.span, "this condition");
        }
    }

    fn expr(&mut self, select: &Select, expr: &Expr) -> Var {
        self.expr_of(&select.sources, expr)
    }

    fn expr_of(&mut self, sources: &[CollectionId], expr: &Expr) -> Var {
        match &expr.kind {
            ExprKind::Literal(value) => self.value(value, expr.span),
            ExprKind::Column { source, column } => self.columns[sources[*source].0][*column],
            ExprKind::Binary(op, left, right) => self.binary(sources, *op, left, right, expr.span),
            ExprKind::Not(inner) => {
                let (var, text) = self.operand(sources, inner);
                self.must_be(var, Base::Bool, inner.span, &text);
                self.types.known(Base::Bool, expr.span)
            }
            ExprKind::Negate(inner) => {
                let (var, text) = self.operand(sources, inner);
                match self.must_be(var, Base::Int, inner.span, &text) {
                    true => var,
                    false => self.types.unknown(),
                }
            }
            ExprKind::OneOf(wanted, items) => {
                let (var, text) = self.operand(sources, wanted);
                for item in items {
                    let (other, other_text) = self.operand(sources, item);
                    self.same(var, other, item.span, &text, &other_text);
                }
                self.types.known(Base::Bool, expr.span)
            }
            ExprKind::Contains(id, wanted) => {
                for (column, item) in wanted.iter().enumerate() {
                    let (var, text) = self.operand(sources, item);
                    let name = self.column_name(*id, column);
                    self.same(var, self.columns[id.0][column], item.span, &text, &name);
                }
                self.types.known(Base::Bool, expr.span)
            }
        }
    }

    /// An expression within another, and what it is called in a message.
    fn operand(&mut self, sources: &[CollectionId], expr: &Expr) -> (Var, String) {
        (self.expr_of(sources, expr), self.described(sources, expr))
    }

    fn binary(
        &mut self,
        sources: &[CollectionId],
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Var {
        let (left_var, left_text) = self.operand(sources, left);
        let (right_var, right_text) = self.operand(sources, right);
        if op.is_comparison() {
            self.same(left_var, right_var, span, &left_text, &right_text);
            if op.is_ordering() && self.types.get(left_var) == Some(Base::Bool) {
                let error = Diagnostic::error(span, "truth values have no order");
                let help = "compare with ==, or write the condition itself";
                self.diagnostics.add(error.help(help));
            }
            return self.types.known(Base::Bool, span);
        }
        let base = if op.is_logical() { Base::Bool } else { Base::Int };
        let is_right = self.must_be(left_var, base, left.span, &left_text)
            && self.must_be(right_var, base, right.span, &right_text);
        // A mistake is reported only once.
        if is_right { self.types.known(base, span) } else { self.types.unknown() }
    }

    fn value(&mut self, value: &Value, span: Span) -> Var {
        match value {
            Value::Nil => self.types.unknown(),
            Value::Bool(_) => self.types.known(Base::Bool, span),
            Value::Int(_) => self.types.known(Base::Int, span),
            Value::Bytes(_) => self.types.text(span),
        }
    }

    /// Unites the type of a value with that of the column into which it is written.
    fn written(&mut self, head: CollectionId, column: usize, var: Var, span: Span) {
        let name = self.column_name(head, column);
        let own = self.columns[head.0][column];
        let shown = span.text(self.source).lines().next().unwrap_or_default();
        let what = if shown.len() <= 30 { format!("`{shown}`") } else { "this".to_owned() };
        self.same(var, own, span, &what, &name);
    }

    /// Returns whether it is.
    fn must_be(&mut self, var: Var, base: Base, span: Span, what: &str) -> bool {
        let other = self.types.known(base, span);
        if let Err(clash) = self.types.unite(var, other) {
            let message = format!("{what} is {}, not {}", a(clash.left.0), a(base));
            self.clash(message, span, clash.left.1);
            return false;
        }
        true
    }

    fn same(&mut self, left: Var, right: Var, span: Span, what: &str, other: &str) {
        if let Err(clash) = self.types.unite(left, right) {
            let message =
                format!("{what} is {} and {other} is {}", a(clash.left.0), a(clash.right.0));
            self.clash(message, span, clash.right.1);
        }
    }

    fn clash(&mut self, message: String, span: Span, reason: Span) {
        let mut error = Diagnostic::error(span, message);
        if reason != span && !reason.text(self.source).is_empty() {
            error = error.note(reason, "because of this");
        }
        self.diagnostics
            .add(error.help("values of different types are never equal; none is converted"));
    }

    fn described(&self, sources: &[CollectionId], expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Column { source, column } => self.column_name(sources[*source], *column),
            _ => format!("`{}`", expr.span.text(self.source)),
        }
    }

    fn column_name(&self, id: CollectionId, column: usize) -> String {
        let collection = self.program.collection(id);
        format!("`{}` of `{}`", collection.columns[column].name, collection.name)
    }
}

/// A type in a sentence.
fn a(base: Base) -> &'static str {
    match base {
        Base::Int => "an int",
        Base::String => "a string",
        Base::Bytes => "bytes",
        Base::Bool => "a bool",
    }
}
