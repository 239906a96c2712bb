//! Comparisons with a text that is never in the column, as of `'filled'` where only `'fill'` is
//! ever written.

use std::collections::{BTreeSet, HashMap};

use crate::diagnostic::{Diagnostic, Diagnostics, listing, suggestion};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Program, Select};
use crate::syntax::ast::{BinaryOp, Kind};
use crate::syntax::token::MergeOp;
use crate::value::Value;

/// What is ever written into a column: these texts, or anything.
type Domain = Option<BTreeSet<Vec<u8>>>;
type Domains = HashMap<(CollectionId, usize), Domain>;

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let domains = domains(program);
    for rule in &program.rules {
        let Body::Select(select) = &rule.body else { continue };
        for expr in select.exprs() {
            expr.visit(&mut |expr| check_expr(program, &domains, select, expr, diagnostics));
        }
    }
}

fn domains(program: &Program) -> Domains {
    let mut domains: Domains = HashMap::new();
    for id in program.ids() {
        let is_anything = program.collection(id).kind == Kind::Input;
        for column in 0..program.collection(id).width() {
            domains.insert((id, column), if is_anything { None } else { Some(BTreeSet::new()) });
        }
    }
    // Texts only ever join a domain, and there are finitely many: it ends.
    loop {
        let mut changed = false;
        for rule in program.rules.iter().filter(|rule| rule.op != MergeOp::Delete) {
            for column in 0..program.collection(rule.head).width() {
                let more = written(&domains, &rule.body, column);
                changed |= widen(&mut domains, (rule.head, column), more);
            }
        }
        if !changed {
            return domains;
        }
    }
}

fn widen(domains: &mut Domains, column: (CollectionId, usize), more: Domain) -> bool {
    let Some(own) = domains.get_mut(&column) else { return false };
    match (own.as_mut(), more) {
        (None, _) => false,
        (Some(_), None) => {
            *own = None;
            true
        }
        (Some(own), Some(more)) => {
            let before = own.len();
            own.extend(more);
            own.len() > before
        }
    }
}

fn written(domains: &Domains, body: &Body, column: usize) -> Domain {
    match body {
        Body::Literal(rows) => {
            let mut texts = BTreeSet::new();
            for row in rows {
                texts.extend(literal(&row[column])?);
            }
            Some(texts)
        }
        Body::Select(select) => match &select.columns.get(column)?.kind {
            ExprKind::Literal(value) => literal(value),
            ExprKind::Column { source, column } => {
                domains.get(&(select.sources[*source], *column)).cloned().flatten()
            }
            _ => None,
        },
        Body::Extreme(extreme) => domains.get(&(extreme.input, column)).cloned().flatten(),
        Body::Group(group) => {
            domains.get(&(group.input, *group.keys.get(column)?)).cloned().flatten()
        }
    }
}

fn literal(value: &Value) -> Domain {
    match value {
        Value::Bytes(text) => Some([text.clone()].into()),
        Value::Nil => Some(BTreeSet::new()),
        _ => None,
    }
}

fn check_expr(
    program: &Program,
    domains: &Domains,
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
        let Some(Some(domain)) = domains.get(&(*id, *column)) else { continue };
        if domain.is_empty() || domain.contains(wanted) {
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
