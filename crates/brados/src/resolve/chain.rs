//! Resolves chains such as `a.notin(b).group(…){|x| …}`: steps, each on the rows of the previous
//! one.

use super::{Resolved, Resolver};
use crate::diagnostic::{Diagnostic, listing, suggestion};
use crate::ir::{self, Body, CollectionId, Expr, Select};
use crate::span::Span;
use crate::syntax::ast::{self, BaseRelation, Call, Lambda, Name};
use crate::syntax::token::MergeOp;
use nacre_calls::Value;

const METHODS: [&str; 9] =
    ["pairs", "combos", "matches", "lefts", "rights", "notin", "group", "argmax", "argmin"];

/// The computation of some rows, and the names of their columns.
pub(super) struct Rows {
    pub body: Body,
    pub names: Vec<String>,
    pub key_width: usize,
}

/// The input of the next step.
pub(super) enum Current {
    Collection(CollectionId),
    Product(Vec<CollectionId>),
    Rows(Rows),
}

impl<'a> Resolver<'a> {
    /// Resolves the right side of a rule.
    pub(super) fn rows(&mut self, relation: &ast::Relation) -> Resolved<Rows> {
        let mut current = self.base(relation)?;
        let mut name = base_name(relation);
        let last = relation.calls.len().saturating_sub(1);
        for (at, call) in relation.calls.iter().enumerate() {
            let block = relation.block.as_ref().filter(|_| at == last);
            current = Current::Rows(self.call(current, &name, call, block)?);
            name = Name {
                text: format!("{}.{}", name.text, call.method.text),
                span: call.method.span,
            };
        }
        if let (Some(block), true) = (&relation.block, relation.calls.is_empty()) {
            if let Current::Product(_) = current {
                return self.product_without_join(relation.span);
            }
            let source = self.materialise(current, &name);
            return self.project(source, block);
        }
        self.finish(current, relation.span)
    }

    fn base(&mut self, relation: &ast::Relation) -> Resolved<Current> {
        match &relation.base {
            BaseRelation::Collection(name) => Ok(Current::Collection(self.readable(name)?)),
            BaseRelation::Product(names) => {
                let ids = names.iter().map(|name| self.readable(name)).collect::<Vec<_>>();
                let ids = ids.into_iter().collect::<Resolved<Vec<_>>>()?;
                if ids.len() > crate::limits::MAX_JOINED {
                    let help =
                        format!("at most {}; name a part with `temp`", crate::limits::MAX_JOINED);
                    let error =
                        Diagnostic::error(relation.span, "too many collections in one join");
                    return self.error(error.help(help));
                }
                match ids.as_slice() {
                    [one] => Ok(Current::Collection(*one)),
                    _ => Ok(Current::Product(ids)),
                }
            }
            BaseRelation::Literal(rows, span) => Ok(Current::Rows(self.literal_rows(rows, *span)?)),
        }
    }

    fn literal_rows(&mut self, rows: &[ast::Expr], span: Span) -> Resolved<Rows> {
        let mut values = vec![];
        for row in rows {
            let ast::ExprKind::List(items) = &row.kind else {
                let error = Diagnostic::error(row.span, "a literal is a list of rows");
                return self
                    .error(error.help("write `[[…], […]]`, each row in brackets of its own"));
            };
            values.push(items.iter().map(|item| self.literal(item)).collect::<Resolved<Vec<_>>>()?);
        }
        let width = values.first().map_or(0, Vec::len);
        if values.is_empty() || values.iter().any(|row| row.len() != width) {
            let error =
                Diagnostic::error(span, "the rows of a literal have the same number of columns");
            return self.error(error.help("at least one row, none longer than another"));
        }
        let names = (0..width).map(|at| format!("c{at}")).collect();
        Ok(Rows { body: Body::Literal(values), names, key_width: width })
    }

    fn literal(&mut self, item: &ast::Expr) -> Resolved<Value> {
        match &item.kind {
            ast::ExprKind::Literal(value) => Ok(value.clone()),
            _ => {
                let error = Diagnostic::error(item.span, "a row of a literal has literals only");
                self.error(error.help("compute it in a block: `request{|r| [r.column, …]}`"))
            }
        }
    }

    fn call(
        &mut self,
        current: Current,
        name: &Name,
        call: &Call,
        block: Option<&Lambda>,
    ) -> Resolved<Rows> {
        let method = call.method.text.as_str();
        if matches!(method, "pairs" | "combos" | "matches" | "lefts" | "rights") {
            let Current::Product(sources) = current else {
                let message = format!("`{method}` joins collections");
                let help = format!("write `(a * b).{method}`");
                return self.error(Diagnostic::error(call.method.span, message).help(help));
            };
            return self.join(sources, call, block);
        }
        if !METHODS.contains(&method) {
            let message = format!("there is no method `{method}`");
            let help = suggestion(method, METHODS)
                .unwrap_or_else(|| format!("there are {}", listing(METHODS)));
            return self.error(Diagnostic::error(call.method.span, message).help(help));
        }
        if let Current::Product(_) = current {
            return self.product_without_join(call.span);
        }
        let source = self.materialise(current, name);
        match method {
            "notin" => self.notin(source, call, block),
            _ => {
                let rows = match method {
                    "group" => self.group(source, call)?,
                    _ => self.extreme(source, call)?,
                };
                match block {
                    None => Ok(rows),
                    Some(block) => {
                        let named =
                            Name { text: format!("{}.{method}", name.text), span: call.span };
                        let source = self.materialise(Current::Rows(rows), &named);
                        self.project(source, block)
                    }
                }
            }
        }
    }

    /// Returns the collection on which a step works. A computed result becomes a new collection.
    pub(super) fn materialise(&mut self, current: Current, name: &Name) -> CollectionId {
        match current {
            Current::Collection(id) => id,
            Current::Product(ids) => ids[0],
            Current::Rows(rows) => {
                let head = self.add_rows(name, true, &rows);
                let body = rows.body;
                self.program.rules.push(ir::Rule { head, op: MergeOp::Now, body, span: name.span });
                head
            }
        }
    }

    fn finish(&mut self, current: Current, span: Span) -> Resolved<Rows> {
        match current {
            Current::Rows(rows) => Ok(rows),
            Current::Product(_) => self.product_without_join(span),
            Current::Collection(id) => Ok(self.whole(id, span)),
        }
    }

    fn product_without_join<T>(&mut self, span: Span) -> Resolved<T> {
        let error = Diagnostic::error(span, "this product does not say how it is joined");
        self.error(
            error.help("write `(a * b).pairs(:x => :y)`, `.matches`, `.lefts(…)` or `.rights(…)`"),
        )
    }

    /// Every row of a collection as it is.
    fn whole(&self, id: CollectionId, span: Span) -> Rows {
        let (columns, names) = self.whole_row(id, 0, span);
        let key_width = self.collection(id).key_width;
        let select = Select { columns, ..Select::of(vec![id]) };
        Rows { body: Body::Select(select), names, key_width }
    }

    /// The columns of a source, and their names.
    pub(super) fn whole_row(
        &self,
        id: CollectionId,
        source: usize,
        span: Span,
    ) -> (Vec<Expr>, Vec<String>) {
        let columns = &self.collection(id).columns;
        let exprs = (0..columns.len()).map(|column| Expr::column(source, column, span));
        (exprs.collect(), columns.iter().map(|column| column.name.clone()).collect())
    }

    /// `rows{|x| …}`.
    fn project(&mut self, source: CollectionId, block: &Lambda) -> Resolved<Rows> {
        let [parameter] = block.parameters.as_slice() else {
            let error = Diagnostic::error(block.span, "this block takes one row at a time");
            return self.error(error.help("write one variable: {|x| …}"));
        };
        self.apply(Select::of(vec![source]), block, &[(parameter, 0)], 0)
    }
}

fn base_name(relation: &ast::Relation) -> Name {
    match &relation.base {
        BaseRelation::Collection(name) => name.clone(),
        BaseRelation::Product(names) => {
            let text: Vec<_> = names.iter().map(|name| name.text.as_str()).collect();
            Name { text: format!("({})", text.join(" * ")), span: relation.span }
        }
        BaseRelation::Literal(_, span) => Name { text: "[…]".to_owned(), span: *span },
    }
}
