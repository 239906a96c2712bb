//! Parses the arguments of a method: columns, pairs of columns, lists of columns, aggregates.

use super::ast::{Argument, ArgumentKind, ColumnName, ExprKind, Name};
use super::parser::{Parsed, Parser, Reported};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use nacre_calls::Value;

impl Parser<'_> {
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        let mut arguments = vec![];
        while !self.is(")") {
            arguments.push(self.argument()?);
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(arguments)
    }

    fn argument(&mut self) -> Parsed<Argument> {
        let start = self.span();
        let kind = self.argument_kind()?;
        Ok(Argument { kind, span: start.to(self.last_span()) })
    }

    fn argument_kind(&mut self) -> Parsed<ArgumentKind> {
        if self.is("[") {
            return Ok(ArgumentKind::Columns(self.column_list()?));
        }
        let name = self.qualified_column()?;
        if name.collection.is_none() && self.is("(") {
            return self.aggregate(name.column);
        }
        if self.eat("=>") {
            return Ok(ArgumentKind::Pair(name, self.qualified_column()?));
        }
        Ok(ArgumentKind::Column(name))
    }

    fn column_list(&mut self) -> Parsed<Vec<ColumnName>> {
        self.expect("[")?;
        let mut columns = vec![];
        while !self.is("]") {
            columns.push(self.qualified_column()?);
            if !self.eat(",") && !self.is("]") {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
        self.expect("]")?;
        Ok(columns)
    }

    /// `:a`, `a` or `a.b`.
    fn qualified_column(&mut self) -> Parsed<ColumnName> {
        if self.eat(":") {
            return Ok(ColumnName { collection: None, column: self.column_name()? });
        }
        let first = self.column_name()?;
        match self.eat(".") {
            true => Ok(ColumnName { collection: Some(first), column: self.column_name()? }),
            false => Ok(ColumnName { collection: None, column: first }),
        }
    }

    /// `max(:v, 0)`: the function's name was here.
    fn aggregate(&mut self, function: Name) -> Parsed<ArgumentKind> {
        self.expect("(")?;
        let mut column = None;
        let mut default = None;
        if !self.is(")") {
            column = Some(self.qualified_column()?);
            if self.eat(",") {
                default = Some(self.default_value()?);
            }
        }
        self.expect(")")?;
        Ok(ArgumentKind::Aggregate { function, column, default })
    }

    fn default_value(&mut self) -> Parsed<(Value, Span)> {
        let expression = self.expression()?;
        let span = expression.span;
        match expression.kind {
            ExprKind::Literal(value) => Ok((value, span)),
            ExprKind::Negate(inner) if matches!(inner.kind, ExprKind::Literal(Value::Int(_))) => {
                let ExprKind::Literal(Value::Int(value)) = inner.kind else { return Err(Reported) };
                Ok((Value::Int(-value), span))
            }
            _ => {
                self.diagnostics.add(Diagnostic::error(span, "a default is a literal"));
                Err(Reported)
            }
        }
    }
}
