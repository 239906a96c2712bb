//! Joins: `pairs`, `combos`, `matches`, `lefts`, `rights`, and `notin`, their opposite.

use super::chain::Rows;
use super::{Resolved, Resolver};
use crate::diagnostic::{Diagnostic, counted, listing};
use crate::ir::{Absence, Body, CollectionId, Expr, ExprKind, Select};
use crate::span::Span;
use crate::syntax::ast::{Argument, ArgumentKind, Call, ColumnName, Lambda, Name};

impl<'a> Resolver<'a> {
    pub(super) fn join(
        &mut self,
        sources: Vec<CollectionId>,
        call: &Call,
        block: Option<&Lambda>,
    ) -> Resolved<Rows> {
        let method = call.method.text.as_str();
        let has_sides = matches!(method, "pairs" | "lefts" | "rights");
        if has_sides && sources.len() != 2 {
            let message = format!("`{method}` joins two collections, not {}", sources.len());
            let error = Diagnostic::error(call.method.span, message);
            return self.error(error.help("`combos` joins more"));
        }
        let filters = match method {
            "matches" => self.natural(&sources, call)?,
            _ => self.column_pairs(&sources, &call.arguments)?,
        };
        let select = Select { filters, ..Select::of(sources) };
        let side = if method == "rights" { 1 } else { 0 };
        match block {
            Some(block) => {
                let bound = self.bind(&select, method, side, block)?;
                self.apply(select, block, &bound, side)
            }
            None => Ok(self.unblocked(select, method, side, call.span)),
        }
    }

    /// Which source each variable of a block stands for.
    fn bind<'l>(
        &mut self,
        select: &Select,
        method: &str,
        side: usize,
        block: &'l Lambda,
    ) -> Resolved<Vec<(&'l Name, usize)>> {
        let width = select.sources.len();
        match block.parameters.as_slice() {
            [one] if matches!(method, "lefts" | "rights") => Ok(vec![(one, side)]),
            all if all.len() == width => {
                Ok(all.iter().enumerate().map(|(at, name)| (name, at)).collect())
            }
            all => {
                let message = format!(
                    "this block has {} for {width} collections",
                    counted(all.len(), "variable")
                );
                let error = Diagnostic::error(block.span, message);
                self.error(error.help("write one variable for each: {|a, b| …}"))
            }
        }
    }

    /// The columns of a join without a block.
    fn unblocked(&self, mut select: Select, method: &str, side: usize, span: Span) -> Rows {
        let mut names: Vec<String> = vec![];
        for (source, id) in select.sources.clone().into_iter().enumerate() {
            if matches!(method, "lefts" | "rights") && source != side {
                continue;
            }
            let (columns, own) = self.whole_row(id, source, span);
            for (column, name) in columns.into_iter().zip(own) {
                if method == "matches" && names.contains(&name) {
                    continue;
                }
                select.columns.push(column);
                names.push(name);
            }
        }
        let key_width = names.len();
        Rows { body: Body::Select(select), names, key_width }
    }

    /// The conditions of a natural join.
    fn natural(&mut self, sources: &[CollectionId], call: &Call) -> Resolved<Vec<Expr>> {
        if let Some(argument) = call.arguments.first() {
            let error =
                Diagnostic::error(argument.span, "`matches` joins on the columns both have");
            return self.error(error.help("use `pairs` to join on chosen columns"));
        }
        let mut filters = vec![];
        for (right, id) in sources.iter().enumerate().skip(1) {
            let shared = self.shared(&sources[..right], *id);
            if shared.is_empty() {
                let name = |id: &CollectionId| self.collection(*id).name.clone();
                let message = format!(
                    "`{}` shares no column with {}",
                    name(id),
                    listing(sources[..right].iter().map(|id| self.collection(*id).name.as_str()))
                );
                let error = Diagnostic::error(call.method.span, message);
                return self.error(error.help("use `pairs(:a => :b)` to say which columns agree"));
            }
            for (left, left_column, right_column) in shared {
                let left = Expr::column(left, left_column, call.method.span);
                filters
                    .push(Expr::equal(left, Expr::column(right, right_column, call.method.span)));
            }
        }
        Ok(filters)
    }

    /// The columns of `right` that have the same name as a column of a relation earlier in the
    /// join. Each result is the earlier relation, its column, and the column of `right`.
    fn shared(&self, before: &[CollectionId], right: CollectionId) -> Vec<(usize, usize, usize)> {
        let mut shared = vec![];
        for (right_column, column) in self.collection(right).columns.iter().enumerate() {
            let same = before.iter().enumerate().find_map(|(left, id)| {
                let columns = &self.collection(*id).columns;
                Some((left, columns.iter().position(|other| other.name == column.name)?))
            });
            shared.extend(same.map(|(left, left_column)| (left, left_column, right_column)));
        }
        shared
    }

    /// The conditions `a => b` of a join.
    fn column_pairs(
        &mut self,
        sources: &[CollectionId],
        arguments: &[Argument],
    ) -> Resolved<Vec<Expr>> {
        let mut filters = vec![];
        for argument in arguments {
            let (left, right) = self.pair(argument)?;
            let left = self.joined_column(sources, left, 0)?;
            let right = self.joined_column(sources, right, 1)?;
            filters.push(Expr::equal(left, right));
        }
        Ok(filters)
    }

    /// `:a => :b`; `:a` alone stands for `:a => :a`.
    fn pair<'c>(&mut self, argument: &'c Argument) -> Resolved<(&'c ColumnName, &'c ColumnName)> {
        match &argument.kind {
            ArgumentKind::Pair(left, right) => Ok((left, right)),
            ArgumentKind::Column(both) => Ok((both, both)),
            _ => {
                let error = Diagnostic::error(argument.span, "expected a pair of columns");
                self.error(error.help("write `:left => :right`"))
            }
        }
    }

    /// A column of a join: with its collection's name, or else of the source at `side`.
    fn joined_column(
        &mut self,
        sources: &[CollectionId],
        name: &ColumnName,
        side: usize,
    ) -> Resolved<Expr> {
        let source = match &name.collection {
            Some(collection) => self.joined_source(sources, collection)?,
            None if sources.len() == 2 => side,
            None => {
                let error =
                    Diagnostic::error(name.span(), "which of the collections is this column of?");
                let help = format!("write `collection.{}`", name.column.text);
                return self.error(error.help(help));
            }
        };
        let column = self.column(sources[source], &name.column)?;
        Ok(Expr::column(source, column, name.span()))
    }

    fn joined_source(&mut self, sources: &[CollectionId], name: &Name) -> Resolved<usize> {
        let is_named = |id: &CollectionId| self.collection(*id).name == name.text;
        let error = match sources.iter().filter(|id| is_named(id)).count() {
            1 => return sources.iter().position(is_named).ok_or(super::Reported),
            0 => {
                let joined = sources.iter().map(|id| self.collection(*id).name.as_str());
                let message = format!("`{}` is not joined here", name.text);
                Diagnostic::error(name.span, message)
                    .help(format!("this joins {}", listing(joined)))
            }
            _ => {
                let message = format!("`{}` is joined twice", name.text);
                Diagnostic::error(name.span, message).help("compare the columns in the block")
            }
        };
        self.error(error)
    }

    pub(super) fn notin(
        &mut self,
        left: CollectionId,
        call: &Call,
        block: Option<&Lambda>,
    ) -> Resolved<Rows> {
        let (right, pairs) = self.notin_arguments(call)?;
        let mut absence =
            Absence { relation: right, equal: vec![], predicate: None, span: call.span };
        for argument in pairs {
            let (from, to) = self.sides([left, right], argument)?;
            absence.equal.push((to, Expr::column(0, from, argument.span)));
        }
        // A block with two variables is a condition; a block with one variable is a projection.
        let (condition, projection) = match block {
            Some(block) if block.parameters.len() == 2 => (Some(block), None),
            other => (None, other),
        };
        match condition {
            Some(block) => {
                let parameters = [(&block.parameters[0], 0), (&block.parameters[1], 1)];
                absence.predicate = Some(self.condition(&[left, right], block, &parameters)?);
            }
            None if pairs.is_empty() => self.whole_rows_match(left, right, &mut absence)?,
            None => {}
        }
        let select = Select { absences: vec![absence], ..Select::of(vec![left]) };
        match projection.map(|block| (block, block.parameters.as_slice())) {
            None => Ok(self.unblocked(select, "notin", 0, call.span)),
            Some((block, [one])) => self.apply(select, block, &[(one, 0)], 0),
            Some((block, _)) => {
                let message = "a block of `notin` has one variable or two";
                let error = Diagnostic::error(block.span, message);
                self.error(error.help("one projects the rows, two say which rows match"))
            }
        }
    }

    /// The collection that must not match, and the pairs of columns that are compared.
    fn notin_arguments<'c>(&mut self, call: &'c Call) -> Resolved<(CollectionId, &'c [Argument])> {
        let (message, span) = match call.arguments.split_first() {
            None => ("`notin` of what?", call.span),
            Some((first, pairs)) => match &first.kind {
                ArgumentKind::Column(ColumnName { collection: None, column: name }) => {
                    return Ok((self.readable(name)?, pairs));
                }
                _ => ("expected the name of a collection", first.span),
            },
        };
        let error = Diagnostic::error(span, message);
        self.error(error.help("write `notin(b)` or `notin(b, :column => :column)`"))
    }

    /// The columns of the two sides of `notin` that a pair declares to be equal.
    fn sides(
        &mut self,
        sources: [CollectionId; 2],
        argument: &Argument,
    ) -> Resolved<(usize, usize)> {
        let (from, to) = self.pair(argument)?;
        let from = self.joined_column(&sources, from, 0)?;
        let to = self.joined_column(&sources, to, 1)?;
        match (from.kind, to.kind) {
            (
                ExprKind::Column { source: 0, column: from },
                ExprKind::Column { source: 1, column: to },
            )
            | (
                ExprKind::Column { source: 1, column: to },
                ExprKind::Column { source: 0, column: from },
            ) => Ok((from, to)),
            _ => {
                let error = Diagnostic::error(argument.span, "both columns are of one collection");
                self.error(error.help("write `:column of what is kept => :column of the other`"))
            }
        }
    }

    /// `a.notin(b)`: a row matches one that is equal in every column.
    fn whole_rows_match(
        &mut self,
        left: CollectionId,
        right: CollectionId,
        absence: &mut Absence,
    ) -> Resolved<()> {
        let (a, b) = (self.collection(left), self.collection(right));
        if a.width() != b.width() {
            let message = format!(
                "`{}` has {} and `{}` has {}: no row of one can equal a row of the other",
                a.name,
                counted(a.width(), "column"),
                b.name,
                b.width()
            );
            let help = format!("say which columns match: `notin({}, :column => :column)`", b.name);
            return self.error(Diagnostic::error(absence.span, message).help(help));
        }
        let columns = 0..a.width();
        absence.equal = columns.map(|at| (at, Expr::column(0, at, absence.span))).collect();
        Ok(())
    }
}
