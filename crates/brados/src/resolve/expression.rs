//! Resolves blocks: which rows they keep and which columns they compute.

use super::chain::Rows;
use super::{Resolved, Resolver};
use crate::diagnostic::{Diagnostic, counted, listing, suggestion};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Select};
use crate::span::Span;
use crate::syntax::ast::{self, BinaryOp, Lambda, Name};
use nacre_calls::Value;

/// The variables of a block, and which source each stands for.
type Parameters<'l> = [(&'l Name, usize)];

impl<'a> Resolver<'a> {
    /// Applies a block (`{|row| …}`) to a join. What the block contains decides which columns the
    /// join yields. For a row in brackets, these are the columns of that row. For a variable, they
    /// are the columns of the relation for which the variable stands. Anything else is a condition,
    /// and the join yields the columns of the relation `side`.
    pub(super) fn apply(
        &mut self,
        mut select: Select,
        block: &Lambda,
        parameters: &Parameters<'_>,
        side: usize,
    ) -> Resolved<Rows> {
        let scope = Scope { sources: &select.sources.clone(), parameters };
        self.check_parameters(parameters)?;
        if let Some(guard) = &block.guard {
            select.filters.extend(self.expr(&scope, guard)?.conjuncts());
        }
        let (columns, names) = match &block.body.kind {
            ast::ExprKind::List(items) => {
                let columns = items.iter().map(|item| self.expr(&scope, item));
                let names = items.iter().enumerate().map(|(at, item)| name_of(item, at));
                (columns.collect::<Resolved<Vec<_>>>()?, names.collect::<Vec<_>>())
            }
            ast::ExprKind::Name(row) if scope.source_of(row).is_some() => {
                let source = scope.source_of(row).unwrap_or(side);
                self.whole_row(select.sources[source], source, block.body.span)
            }
            _ => {
                select.filters.extend(self.expr(&scope, &block.body)?.conjuncts());
                self.whole_row(select.sources[side], side, block.body.span)
            }
        };
        let key_width = names.len();
        select.columns = columns;
        Ok(Rows { body: Body::Select(select), names, key_width })
    }

    /// A block that is a condition on several rows.
    pub(super) fn condition(
        &mut self,
        sources: &[CollectionId],
        block: &Lambda,
        parameters: &Parameters<'_>,
    ) -> Resolved<Expr> {
        self.check_parameters(parameters)?;
        if matches!(block.body.kind, ast::ExprKind::List(_)) || block.guard.is_some() {
            let error = Diagnostic::error(block.body.span, "this block says which rows match");
            return self.error(
                error.help("write a condition on both variables, or use one variable to project"),
            );
        }
        let condition = self.expr(&Scope { sources, parameters }, &block.body)?;
        // Conditions that compute come last, as in joins.
        let span = condition.span;
        let mut all = condition.conjuncts();
        all.sort_by_key(Expr::computes);
        Ok(joined(BinaryOp::And, all, span))
    }

    fn check_parameters(&mut self, parameters: &Parameters<'_>) -> Resolved<()> {
        for (at, (name, _)) in parameters.iter().enumerate() {
            if parameters[..at].iter().any(|(other, _)| other.text == name.text) {
                let message = format!("there are two variables `{}`", name.text);
                return self.error(Diagnostic::error(name.span, message));
            }
        }
        Ok(())
    }

    fn expr(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Resolved<Expr> {
        let span = expr.span;
        let kind = match &expr.kind {
            ast::ExprKind::Literal(value) => ExprKind::Literal(value.clone()),
            ast::ExprKind::Column(row, column) => {
                let source = self.row(scope, row)?;
                let column = self.column(scope.sources[source], column)?;
                ExprKind::Column { source, column }
            }
            ast::ExprKind::Binary(op, left, right) => {
                let left = Box::new(self.expr(scope, left)?);
                ExprKind::Binary(*op, left, Box::new(self.expr(scope, right)?))
            }
            ast::ExprKind::Not(inner) => ExprKind::Not(Box::new(self.expr(scope, inner)?)),
            ast::ExprKind::Negate(inner) => ExprKind::Negate(Box::new(self.expr(scope, inner)?)),
            ast::ExprKind::Include(target, wanted) => {
                return self.include(scope, target, wanted, span);
            }
            ast::ExprKind::Name(name) => {
                let row = Name { text: name.clone(), span };
                self.row(scope, &row)?;
                let help = format!("write a column of it: `{name}.…`");
                let error = Diagnostic::error(span, format!("`{name}` is a row, not a value"));
                return self.error(error.help(help));
            }
            ast::ExprKind::List(_) => {
                let error = Diagnostic::error(span, "a list is no value here");
                return self.error(
                    error.help("a list stands for a row of a block, or before `.include?`"),
                );
            }
        };
        Ok(Expr { kind, span })
    }

    fn row(&mut self, scope: &Scope<'_>, name: &Name) -> Resolved<usize> {
        match scope.source_of(&name.text) {
            Some(source) => Ok(source),
            None => {
                let known = || scope.parameters.iter().map(|(name, _)| name.text.as_str());
                let help = suggestion(&name.text, known())
                    .unwrap_or_else(|| format!("the block has {}", listing(known())));
                let message = format!("there is no variable `{}` here", name.text);
                self.error(Diagnostic::error(name.span, message).help(help))
            }
        }
    }

    fn include(
        &mut self,
        scope: &Scope<'_>,
        target: &ast::Expr,
        wanted: &ast::Expr,
        span: Span,
    ) -> Resolved<Expr> {
        match &target.kind {
            ast::ExprKind::List(items) => self.in_list(scope, items, wanted, span),
            ast::ExprKind::Name(name) if scope.source_of(name).is_none() => {
                let name = Name { text: name.clone(), span: target.span };
                let id = self.readable(&name)?;
                let wanted = self.wanted(scope, wanted)?;
                self.contains(id, wanted, span)
            }
            _ => {
                let error =
                    Diagnostic::error(target.span, "`include?` asks a collection or a list");
                self.error(error.help("write `collection.include?([…])` or `[…].include?(x)`"))
            }
        }
    }

    /// The wanted columns: a row in brackets, a variable's row, or one value.
    fn wanted(&mut self, scope: &Scope<'_>, wanted: &ast::Expr) -> Resolved<Vec<Expr>> {
        match &wanted.kind {
            ast::ExprKind::List(items) => items.iter().map(|item| self.expr(scope, item)).collect(),
            ast::ExprKind::Name(row) if scope.source_of(row).is_some() => {
                let source = scope.source_of(row).unwrap_or_default();
                Ok(self.whole_row(scope.sources[source], source, wanted.span).0)
            }
            _ => Ok(vec![self.expr(scope, wanted)?]),
        }
    }

    fn contains(&mut self, id: CollectionId, wanted: Vec<Expr>, span: Span) -> Resolved<Expr> {
        let collection = self.collection(id);
        let (key, all) = (collection.key_width, collection.width());
        if wanted.len() == key || wanted.len() == all {
            return Ok(Expr { kind: ExprKind::Contains(id, wanted), span });
        }
        let name = &collection.name;
        let message = format!(
            "`{name}` has {all} columns, {key} of them its key; this asks for {}",
            wanted.len()
        );
        self.error(Diagnostic::error(span, message).help("ask for a key or for a whole row"))
    }

    fn in_list(
        &mut self,
        scope: &Scope<'_>,
        items: &[ast::Expr],
        wanted: &ast::Expr,
        span: Span,
    ) -> Resolved<Expr> {
        if let ast::ExprKind::List(wanted) = &wanted.kind {
            return self.row_in_list(scope, items, wanted, span);
        }
        let wanted = Box::new(self.expr(scope, wanted)?);
        let items =
            items.iter().map(|item| self.expr(scope, item)).collect::<Resolved<Vec<_>>>()?;
        Ok(Expr { kind: ExprKind::OneOf(wanted, items), span })
    }

    /// `[[1, 2], [3, 4]].include?([a, b])`: one of the rows is equal in every column.
    fn row_in_list(
        &mut self,
        scope: &Scope<'_>,
        rows: &[ast::Expr],
        wanted: &[ast::Expr],
        span: Span,
    ) -> Resolved<Expr> {
        let mut any = vec![];
        for row in rows {
            let ast::ExprKind::List(items) = &row.kind else {
                let error = Diagnostic::error(row.span, "a row is looked for in a list of rows");
                return self.error(error.help("write `[[…], […]].include?([…])`"));
            };
            if items.len() != wanted.len() {
                let message = format!(
                    "this row has {}, the one looked for {}",
                    counted(items.len(), "column"),
                    wanted.len()
                );
                return self.error(Diagnostic::error(row.span, message));
            }
            let mut all = vec![];
            for (item, wanted) in items.iter().zip(wanted) {
                all.push(Expr::equal(self.expr(scope, wanted)?, self.expr(scope, item)?));
            }
            any.push(joined(BinaryOp::And, all, span));
        }
        Ok(joined(BinaryOp::Or, any, span))
    }
}

struct Scope<'s> {
    sources: &'s [CollectionId],
    parameters: &'s Parameters<'s>,
}

impl Scope<'_> {
    fn source_of(&self, name: &str) -> Option<usize> {
        self.parameters.iter().find(|(own, _)| own.text == name).map(|(_, source)| *source)
    }
}

/// `x.col` keeps its name; any other column is called after its position.
fn name_of(item: &ast::Expr, at: usize) -> String {
    match &item.kind {
        ast::ExprKind::Column(_, column) => column.text.clone(),
        _ => format!("c{at}"),
    }
}

/// Joins conditions by one operator, into the shallowest possible tree, because later passes are
/// recursive.
fn joined(op: BinaryOp, mut conditions: Vec<Expr>, span: Span) -> Expr {
    let half = conditions.len() / 2;
    match conditions.len() {
        0 => Expr { kind: ExprKind::Literal(Value::Bool(op == BinaryOp::And)), span },
        1 => conditions.remove(0),
        _ => {
            let right = conditions.split_off(half);
            let sides = [conditions, right].map(|side| Box::new(joined(op, side, span)));
            let [left, right] = sides;
            Expr { kind: ExprKind::Binary(op, left, right), span }
        }
    }
}
