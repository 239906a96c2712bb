//! Expressions in blocks, by precedence climbing.

use super::ast::{BinaryOp, Expr, ExprKind, Name};
use super::parser::{Parsed, Parser, Reported};
use super::token::{KEYWORDS, MergeOp, TokenKind};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use nacre_calls::Value;

/// The precedence of the operators that bind least.
const LOWEST: usize = 1;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.binary(LOWEST)
    }

    fn binary(&mut self, lowest: usize) -> Parsed<Expr> {
        self.deeper(|parser| {
            let left = parser.unary()?;
            parser.more_operands(left, lowest)
        })
    }

    /// Parses the operators and operands after the first operand. Operators are left-associative,
    /// so each further operand makes the tree one level deeper; the depth is bounded.
    fn more_operands(&mut self, left: Expr, lowest: usize) -> Parsed<Expr> {
        let Some(op) = self.binary_op(lowest) else { return Ok(left) };
        self.deeper(|parser| {
            let (op, right) = match op {
                // `a <-b + c`: less than what begins with minus b.
                Operator::LessThanMinus(span) => {
                    let negated = parser.negated(span)?;
                    let right = parser.more_operands(negated, BinaryOp::Less.precedence() + 1)?;
                    (BinaryOp::Less, right)
                }
                Operator::Of(op) => (op, parser.binary(op.precedence() + 1)?),
            };
            let span = left.span.to(right.span);
            if op.is_comparison() && parser.is_bare_comparison(&left) {
                let error = Diagnostic::error(span, "comparisons are not chained");
                let help = "write both, joined: `a < b and b < c`";
                return Err(parser.report(error.help(help)));
            }
            let kind = ExprKind::Binary(op, Box::new(left), Box::new(right));
            parser.more_operands(Expr { kind, span }, lowest)
        })
    }

    /// Whether an expression is a comparison without brackets around it.
    fn is_bare_comparison(&self, expr: &Expr) -> bool {
        let is_comparison = matches!(expr.kind, ExprKind::Binary(op, ..) if op.is_comparison());
        is_comparison && !expr.span.text(self.source).ends_with(')')
    }

    /// Parses the operand after a minus; the minus belongs only to this operand.
    fn negated(&mut self, minus: Span) -> Parsed<Expr> {
        let operand = self.deeper(Self::unary)?;
        let span = minus.to(operand.span);
        let kind = match operand.kind {
            ExprKind::Literal(Value::Int(value)) => ExprKind::Literal(Value::Int(-value)),
            _ => ExprKind::Negate(Box::new(operand)),
        };
        Ok(Expr { kind, span })
    }

    /// Takes the operator at the present position if it binds at least this tightly.
    fn binary_op(&mut self, lowest: usize) -> Option<Operator> {
        let span = self.span();
        let op = match self.peek().kind {
            TokenKind::Merge(MergeOp::Now) => BinaryOp::AtMost,
            TokenKind::Merge(MergeOp::Delete) if BinaryOp::Less.precedence() >= lowest => {
                self.advance();
                return Some(Operator::LessThanMinus(span));
            }
            TokenKind::Punctuation(text) => punctuated(text)?,
            TokenKind::Word => match self.word()? {
                "or" => BinaryOp::Or,
                "and" => BinaryOp::And,
                _ => return None,
            },
            _ => return None,
        };
        if op.precedence() < lowest {
            return None;
        }
        self.advance();
        Some(Operator::Of(op))
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if self.eat("!") {
            let operand = self.deeper(Self::unary)?;
            return Ok(negation(start, operand));
        }
        // As in Ruby, `not a == b` negates the comparison, and `!a` negates only its operand.
        if self.eat_word("not") {
            let operand = self.binary(BinaryOp::Equal.precedence())?;
            return Ok(negation(start, operand));
        }
        if self.eat("-") {
            return self.negated(start);
        }
        self.postfix()
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expression = self.primary()?;
        while self.is(".") {
            self.advance();
            let member = self.column_name()?;
            let is_include = member.text == "include" && self.eat("?");
            let is_method = self.is("?") || !matches!(expression.kind, ExprKind::Name(_));
            if is_method && !is_include {
                return Err(self.no_method(&member));
            }
            let kind = match expression.kind {
                kind if is_include => {
                    self.expect("(")?;
                    let wanted = self.expression()?;
                    self.expect(")")?;
                    let target = Expr { kind, span: expression.span };
                    ExprKind::Include(Box::new(target), Box::new(wanted))
                }
                ExprKind::Name(row) => {
                    ExprKind::Column(Name { text: row, span: expression.span }, member)
                }
                _ => return Err(self.no_method(&member)),
            };
            expression = Expr { kind, span: expression.span.to(self.last_span()) };
        }
        Ok(expression)
    }

    fn no_method(&mut self, name: &Name) -> Reported {
        let error =
            Diagnostic::error(name.span, format!("there is no method `{}` here", name.text));
        let help =
            "in a block there is `include?` alone: `collection.include?([…])`, `[…].include?(x)`";
        self.report(error.help(help))
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if self.eat("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(Expr { span: start.to(self.last_span()), ..inner });
        }
        if self.is("[") {
            let kind = ExprKind::List(self.list()?);
            return Ok(Expr { kind, span: start.to(self.last_span()) });
        }
        let kind = match self.peek().kind.clone() {
            TokenKind::Integer(value) => ExprKind::Literal(Value::Int(value)),
            TokenKind::Text(bytes) => ExprKind::Literal(Value::Bytes(bytes)),
            TokenKind::Word => match self.word().unwrap_or_default() {
                "true" => ExprKind::Literal(Value::Bool(true)),
                "false" => ExprKind::Literal(Value::Bool(false)),
                "nil" => ExprKind::Literal(Value::Nil),
                word if KEYWORDS.contains(&word) => return Err(self.unexpected("an expression")),
                word => ExprKind::Name(word.to_owned()),
            },
            _ => return Err(self.unexpected("an expression")),
        };
        self.advance();
        Ok(Expr { kind, span: start })
    }

    /// `[a, b]`
    pub(super) fn list(&mut self) -> Parsed<Vec<Expr>> {
        self.expect("[")?;
        self.inside(|parser| {
            let mut items = vec![];
            while !parser.is("]") {
                items.push(parser.expression()?);
                if !parser.eat(",") && !parser.is("]") {
                    return Err(parser.unexpected("`,` or `]`"));
                }
            }
            parser.expect("]")?;
            Ok(items)
        })
    }
}

fn negation(start: Span, operand: Expr) -> Expr {
    let span = start.to(operand.span);
    Expr { kind: ExprKind::Not(Box::new(operand)), span }
}

enum Operator {
    Of(BinaryOp),
    LessThanMinus(Span),
}

fn punctuated(text: &str) -> Option<BinaryOp> {
    Some(match text {
        "||" => BinaryOp::Or,
        "&&" => BinaryOp::And,
        "==" => BinaryOp::Equal,
        "!=" => BinaryOp::Unequal,
        "<" => BinaryOp::Less,
        ">" => BinaryOp::Greater,
        ">=" => BinaryOp::AtLeast,
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Subtract,
        "*" => BinaryOp::Multiply,
        "/" => BinaryOp::Divide,
        "%" => BinaryOp::Modulo,
        _ => return None,
    })
}
