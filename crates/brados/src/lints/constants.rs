//! Finds comparisons of a column with a string that no rule ever writes into the column. For
//! example a program writes `'fill'` but compares with `'filled'`.

use std::collections::HashMap;

use crate::diagnostic::{Diagnostic, Diagnostics, listing, suggestion};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Program, Select};
use crate::syntax::ast::{BinaryOp, Kind};
use crate::syntax::token::MergeOp;
use nacre_calls::Value;

/// How many different strings of a program this check distinguishes. The strings that a column can
/// hold are a `u128`, in which each bit stands for one string. If a rule writes a string without a
/// bit into a column, the check assumes that the column can hold any string.
const MAX_TEXTS: usize = u128::BITS as usize;

/// The strings that rules write into a column, or `None` if it can be any string.
type Domain = Option<u128>;

struct Domains<'a> {
    program: &'a Program,
    texts: Vec<Vec<u8>>,
    columns: HashMap<(CollectionId, usize), Domain>,
}

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut domains = Domains { program, texts: vec![], columns: HashMap::new() };
    domains.fill();
    for rule in &program.rules {
        let Body::Select(select) = &rule.body else { continue };
        for expr in select.exprs() {
            expr.visit(&mut |expr| check_expr(program, &domains, select, expr, diagnostics));
        }
    }
}

impl Domains<'_> {
    fn fill(&mut self) {
        for id in self.program.ids() {
            let is_anything = self.program.collection(id).kind == Kind::Input;
            for column in 0..self.program.collection(id).width() {
                self.columns.insert((id, column), if is_anything { None } else { Some(0) });
            }
        }
        // This loop ends, because strings are only ever added to a domain, and there are finitely
        // many.
        while self.widen_all() {}
    }

    /// Adds what each rule writes; returns whether that was new.
    fn widen_all(&mut self) -> bool {
        let mut changed = false;
        for rule in self.program.rules.iter().filter(|rule| rule.op != MergeOp::Delete) {
            for column in 0..self.program.collection(rule.head).width() {
                let more = self.written(&rule.body, column);
                let Some(own) = self.columns.get_mut(&(rule.head, column)) else { continue };
                let wider = own.zip(more).map(|(own, more)| own | more);
                changed |= wider != *own;
                *own = wider;
            }
        }
        changed
    }

    fn get(&self, id: CollectionId, column: usize) -> Domain {
        self.columns.get(&(id, column)).copied().flatten()
    }

    fn written(&mut self, body: &Body, column: usize) -> Domain {
        match body {
            Body::Literal(rows) => {
                rows.iter().try_fold(0, |domain, row| Some(domain | self.literal(&row[column])?))
            }
            Body::Select(select) => match &select.columns.get(column)?.kind {
                ExprKind::Literal(value) => self.literal(value),
                ExprKind::Column { source, column } => self.get(select.sources[*source], *column),
                _ => None,
            },
            Body::Extreme(extreme) => self.get(extreme.input, column),
            Body::Group(group) => self.get(group.input, *group.keys.get(column)?),
        }
    }

    fn literal(&mut self, value: &Value) -> Domain {
        let Value::Bytes(text) = value else {
            return (*value == Value::Nil).then_some(0);
        };
        let known = self.texts.iter().position(|known| known == text);
        let at = known.unwrap_or_else(|| {
            self.texts.push(text.clone());
            self.texts.len() - 1
        });
        (at < MAX_TEXTS).then(|| 1 << at)
    }

    /// The strings of a domain, in their order.
    fn texts(&self, domain: u128) -> Vec<&Vec<u8>> {
        let bits = self.texts.iter().take(MAX_TEXTS).enumerate();
        let mut texts: Vec<_> =
            bits.filter(|(at, _)| domain & (1 << at) != 0).map(|(_, text)| text).collect();
        texts.sort();
        texts
    }
}

fn check_expr(
    program: &Program,
    domains: &Domains<'_>,
    select: &Select,
    expr: &Expr,
    diagnostics: &mut Diagnostics,
) {
    let comparisons: Vec<(&Expr, &Expr)> = match &expr.kind {
        ExprKind::Binary(BinaryOp::Equal | BinaryOp::Unequal, left, right) => {
            vec![(left, right), (right, left)]
        }
        ExprKind::OneOf(wanted, items) => items.iter().map(|item| (&**wanted, item)).collect(),
        _ => return,
    };
    for (column, text) in comparisons {
        let (ExprKind::Column { source, column }, ExprKind::Literal(Value::Bytes(wanted))) =
            (&column.kind, &text.kind)
        else {
            continue;
        };
        let Some(id) = select.sources.get(*source) else { continue };
        let Some(domain) = domains.get(*id, *column) else { continue };
        let domain = domains.texts(domain);
        if domain.is_empty() || domain.contains(&wanted) {
            continue;
        }
        let collection = program.collection(*id);
        let texts: Vec<_> =
            domain.iter().map(|text| format!("'{}'", text.escape_ascii())).collect();
        let shown = format!("'{}'", wanted.escape_ascii());
        let message = format!(
            "`{}` of `{}` is never {shown}: only {} is written there",
            collection.columns[*column].name,
            collection.name,
            listing(texts.iter().map(String::as_str))
        );
        let help = suggestion(&shown, texts.iter().map(String::as_str));
        diagnostics.add(Diagnostic::warning(text.span, message).maybe_help(help));
    }
}
