//! Rules: `name <= relation`.

use super::ast::{BaseRelation, Call, Lambda, Relation, Rule};
use super::parser::{Parsed, Parser, Reported};
use super::token::{MergeOp, TokenKind};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

impl Parser<'_> {
    pub(super) fn rule(&mut self) -> Parsed<Rule> {
        let start = self.span();
        if matches!(self.word(), Some("table" | "scratch" | "channel" | "interface")) {
            let message = "collections are declared in `state`";
            self.diagnostics
                .add(Diagnostic::error(start, message).help("move this into `state do … end`"));
            return Err(Reported);
        }
        self.no_layout_here()?;
        let is_temp = self.eat_word("temp");
        if is_temp {
            self.expect(":")?;
        }
        let head = self.name("a rule")?;
        let op_span = self.span();
        let op = self.merge_op()?;
        self.skip_lines();
        let body = self.relation()?;
        let span = start.to(self.last_span());
        Ok(Rule { is_temp, head, op, op_span, body, span })
    }

    fn merge_op(&mut self) -> Parsed<MergeOp> {
        let TokenKind::Merge(op) = self.peek().kind else {
            let span = self.span();
            let error =
                Diagnostic::error(span, format!("expected a rule's `<=`, found {}", self.shown()));
            let help = "a rule is `name <= …` (now), `<+` (insert), `<-` (delete), `<+-` (replace) or `<~` (send)";
            return Err(self.report(error.help(help)));
        };
        self.advance();
        Ok(op)
    }

    fn relation(&mut self) -> Parsed<Relation> {
        let start = self.span();
        let base = self.base_relation()?;
        let mut calls = vec![];
        self.skip_lines_before_dot();
        while self.eat(".") {
            self.skip_lines();
            calls.push(self.call()?);
            self.skip_lines_before_dot();
        }
        let block = match (self.is("{"), self.word()) {
            (true, _) => Some(self.lambda("}")?),
            (false, Some("do")) => Some(self.lambda("end")?),
            _ => None,
        };
        Ok(Relation { base, calls, block, span: start.to(self.last_span()) })
    }

    fn base_relation(&mut self) -> Parsed<BaseRelation> {
        let start = self.span();
        if self.eat("(") {
            let names = self.inside(|parser| {
                let mut names = vec![parser.name("a collection")?];
                while parser.eat("*") {
                    names.push(parser.name("a collection")?);
                }
                parser.expect(")")?;
                Ok(names)
            })?;
            return Ok(BaseRelation::Product(names));
        }
        if self.is("[") {
            let rows = self.list()?;
            return Ok(BaseRelation::Literal(rows, start.to(self.last_span())));
        }
        Ok(BaseRelation::Collection(self.name("a collection")?))
    }

    fn call(&mut self) -> Parsed<Call> {
        let method = self.column_name()?;
        let mut span = method.span;
        let mut arguments = vec![];
        if self.eat("(") {
            arguments = self.inside(|parser| {
                let arguments = parser.arguments()?;
                parser.expect(")")?;
                Ok(arguments)
            })?;
            span = span.to(self.last_span());
        }
        Ok(Call { method, arguments, span })
    }

    /// Parses a block, from its opening at the present position to `closing`.
    fn lambda(&mut self, closing: &str) -> Parsed<Lambda> {
        let start = self.advance().span;
        self.inside(|parser| {
            parser.expect("|")?;
            let mut parameters = vec![parser.name("a variable")?];
            while parser.eat(",") {
                parameters.push(parser.name("a variable")?);
            }
            parser.expect("|")?;
            let body = parser.expression()?;
            let guard = parser.guard()?;
            let end = parser.span();
            match closing {
                "end" => parser.expect_word("end")?,
                _ => drop(parser.expect(closing)?),
            }
            Ok(Lambda { parameters, body, guard, span: Span::to(start, end) })
        })
    }

    fn guard(&mut self) -> Parsed<Option<super::ast::Expr>> {
        if self.eat_word("if") {
            return Ok(Some(self.expression()?));
        }
        if self.eat_word("unless") {
            let condition = self.expression()?;
            let span = condition.span;
            let kind = super::ast::ExprKind::Not(Box::new(condition));
            return Ok(Some(super::ast::Expr { kind, span }));
        }
        Ok(None)
    }
}
