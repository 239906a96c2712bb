//! One rule: its steps within each other, and what becomes of a row.

use super::encoding::{Typed, key, quoted, row_key};
use super::expression::{Scope, value};
use super::method::MethodWriter;
use super::stored;
use crate::ir::{Body, CollectionId, Column, Expr, ExprKind, Select};
use crate::plan::{Access, Relation, Rows, RulePlan, Step};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;
use crate::value::Type;

/// What becomes of the rows of a rule.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The one row of a relation in memory.
    Only(String),
    /// The same where rules may give several, which are then to be equal.
    OnlyOne(String),
    /// A set in memory.
    Set(String),
    /// A set of few rows in memory.
    Few(String),
    /// A set of rows that are added to a table now.
    Table,
    /// What waits for the end of the request.
    Pending(&'static str),
    /// The one row that waits for it.
    OnlyPending(String),
}

impl Target {
    pub fn of(method: &MethodWriter<'_>, head: CollectionId, op: MergeOp) -> Self {
        let local = Relation::Local(head);
        match op {
            MergeOp::Now if method.program.collection(head).kind == Kind::Table => Self::Table,
            MergeOp::Now => match method.plan.rows_of(local) {
                Rows::Many if method.is_few(local) => Self::Few(method.name(local)),
                Rows::Many => Self::Set(method.name(local)),
                _ if method.may_come_twice(head) => Self::OnlyOne(method.name(local)),
                _ => Self::Only(method.name(local)),
            },
            MergeOp::Send => Self::Set(method.pending_name(head)),
            _ if method.only_change(head).is_some() => Self::OnlyPending(method.pending_name(head)),
            MergeOp::Insert => Self::Pending("insert"),
            MergeOp::Delete => Self::Pending("delete"),
            MergeOp::Replace => Self::Pending("replace"),
        }
    }
}

impl MethodWriter<'_> {
    pub(super) fn rule(&mut self, plan: &RulePlan, target: Target) {
        let rule = &self.program.rules[plan.rule];
        match &rule.body {
            Body::Select(select) => self.select(plan, select, rule.head, &target),
            Body::Literal(rows) => {
                for row in rows {
                    let columns = row.iter().map(value).collect();
                    self.out.open("do");
                    self.put_row(rule.head, columns, &target);
                    self.out.close("end");
                }
            }
            Body::Group(group) => self.group(plan, group, rule.head, &target),
            Body::Extreme(extreme) => self.extreme(plan, extreme, rule.head, &target),
        }
    }

    fn select(&mut self, plan: &RulePlan, select: &Select, head: CollectionId, target: &Target) {
        let mut scope = Scope {
            collections: select.sources.clone(),
            rows: vec![String::new(); select.sources.len()],
        };
        let mut ends = vec!["end".to_owned()];
        self.out.open("do");
        let mut steps = plan.steps.iter().peekable();
        while let Some(step) = steps.next() {
            match step {
                Step::Bind { source, access } => {
                    scope.rows[*source] =
                        self.bind(&scope, plan.sources[*source], access, &mut ends);
                }
                Step::Filter(first) => {
                    let mut tests = vec![self.expr(&scope, &select.filters[*first])];
                    while let Some(Step::Filter(next)) = steps.peek() {
                        tests.push(self.expr(&scope, &select.filters[*next]));
                        steps.next();
                    }
                    self.out.open(format!("if {} then", tests.join(" and ")));
                    ends.push("end".to_owned());
                }
                Step::Absent { absence, relation, access, remaining } => {
                    let absence = &select.absences[*absence];
                    let remaining: Vec<_> =
                        remaining.iter().map(|at| &absence.equal[*at]).collect();
                    self.absent(
                        &scope,
                        *relation,
                        access,
                        &remaining,
                        absence.predicate.as_ref(),
                        &mut ends,
                    );
                }
            }
        }
        match whole_row(self, select, head) {
            Some(source) => self.put_existing(head, scope.rows[source].clone(), target),
            None => {
                let columns =
                    select.columns.iter().map(|column| self.expr(&scope, column)).collect();
                self.put_row(head, columns, target);
            }
        }
        for end in ends.iter().rev() {
            self.out.close(end);
        }
    }

    /// Opens what goes over the rows of a relation; answers what a row is called.
    pub(super) fn bind(
        &mut self,
        scope: &Scope,
        relation: Relation,
        access: &Access,
        ends: &mut Vec<String>,
    ) -> String {
        let name = self.name(relation);
        self.depth += 1;
        let row = format!("r{}", self.depth);
        let mut end = "end";
        match access {
            Access::Only if self.scalars.contains_key(&name) => {
                self.open_if_there(&name);
                ends.push(end.to_owned());
                return name;
            }
            Access::Only => {
                self.out.put(format!("local {row} = {name}"));
                self.out.open(format!("if {row} then"));
            }
            Access::Each if self.is_few(relation) => self.bind_few(&name, &row),
            Access::Each => {
                self.out.open(format!("for i = 1, {name}.count do"));
                self.out.put(format!("local {row} = {name}.rows[i]"));
            }
            Access::EachNew => {
                self.out.open(format!("for i = {name}.new, {name}.upto do"));
                self.out.put(format!("local {row} = {name}.rows[i]"));
            }
            Access::Index(columns, exprs) if self.is_few(relation) => {
                self.bind_few(&name, &row);
                let tests: Vec<_> = columns
                    .iter()
                    .zip(exprs)
                    .map(|(column, expr)| {
                        format!("{row}[{}] == {}", column + 1, self.expr(scope, expr))
                    })
                    .collect();
                self.out.open(format!("if {} then", tests.join(" and ")));
                ends.push("end".to_owned());
            }
            Access::Index(columns, exprs) => self.bind_index(scope, relation, columns, exprs, &row),
            Access::Point(exprs) => {
                if let Some(row) = self.look_up_point(scope, relation, exprs) {
                    self.open_if_there(&row);
                    ends.push(end.to_owned());
                    return row;
                }
                let (there, key) = self.key_of(scope, relation, exprs, true);
                self.out.put(format!("local {row} = {there}{name}.get(object, {key})"));
                self.out.open(format!("if {row} then"));
            }
            Access::Prefix(exprs) => {
                let (there, key) = self.key_of(scope, relation, exprs, false);
                self.out.open(format!("if {there}true then"));
                ends.push("end".to_owned());
                self.out.put(format!("local prefix{} = {name}.prefix .. {key}", self.depth));
                end = self.bind_range(relation, &row, ends);
            }
            Access::Scan => {
                self.out.put(format!("local prefix{} = {name}.prefix", self.depth));
                end = self.bind_range(relation, &row, ends);
            }
        }
        ends.push(end.to_owned());
        row
    }

    fn open_if_there(&mut self, row: &str) {
        match self.is_there(row).as_str() {
            "true" => self.out.open("do"),
            is_there => self.out.open(format!("if {is_there} then")),
        }
    }

    /// The row of a table with this key, if it need be looked up once a request only.
    fn look_up_point(
        &mut self,
        scope: &Scope,
        relation: Relation,
        exprs: &[Expr],
    ) -> Option<String> {
        let Relation::Stored(table) = relation else { return None };
        let key_types = &self.program.collection(table).columns;
        let may_lack = |(expr, column): (&Expr, &Column)| {
            !column.ty.may_be_nil && self.may_be_nil(scope, expr)
        };
        if exprs.iter().zip(key_types).any(may_lack) {
            return None;
        }
        let columns: Vec<_> = exprs.iter().map(|expr| self.expr(scope, expr)).collect();
        self.look_up(table, &columns)
    }

    fn bind_few(&mut self, name: &str, row: &str) {
        self.out.open(format!("for i = 1, #{name} do"));
        self.out.put(format!("local {row} = {name}[i]"));
    }

    fn bind_index(
        &mut self,
        scope: &Scope,
        relation: Relation,
        columns: &[usize],
        exprs: &[Expr],
        row: &str,
    ) {
        let name = self.name(relation);
        let depth = self.depth;
        let id = relation.collection();
        let types: Vec<Type> = columns.iter().map(|column| self.type_of(id, *column)).collect();
        let own: Vec<Typed> = columns
            .iter()
            .zip(&types)
            .map(|(column, ty)| (format!("row[{}]", column + 1), *ty))
            .collect();
        let wanted: Vec<Typed> =
            exprs.iter().zip(&types).map(|(expr, ty)| (self.expr(scope, expr), *ty)).collect();
        let nullable = self.widened(scope, exprs, &types);
        let (own, wanted) = (nullable(own), nullable(wanted));
        // Indexes by the same columns differ where one must also tell nil.
        let label: Vec<_> = columns
            .iter()
            .zip(&own)
            .map(|(column, (_, ty))| format!("{column}{}", if ty.may_be_nil { "?" } else { "" }))
            .collect();
        let own = key(self.runtime, &own, true);
        let wanted = key(self.runtime, &wanted, true);
        let (index, nothing) = (self.runtime.need("index"), self.runtime.need("NOTHING"));
        self.out.put(format!(
            "local g{depth} = {index}({name}, \"by {}\", function(row) return {own} end)[{wanted}] or {nothing}",
            label.join(",")
        ));
        self.out.open(format!("for i = 1, #g{depth} do"));
        self.out.put(format!("local {row} = g{depth}[i]"));
    }

    /// Where a value that may be nil is looked for among values that may not, both are written as if
    /// they could be.
    fn widened(
        &self,
        scope: &Scope,
        exprs: &[Expr],
        types: &[Type],
    ) -> impl Fn(Vec<Typed>) -> Vec<Typed> + use<> {
        let nil: Vec<bool> = exprs
            .iter()
            .zip(types)
            .map(|(expr, ty)| ty.may_be_nil || self.may_be_nil(scope, expr))
            .collect();
        move |columns| {
            let widen = |((text, ty), may_be_nil): ((String, Type), &bool)| {
                (text, Type { may_be_nil: *may_be_nil, ..ty })
            };
            columns.into_iter().zip(&nil).map(widen).collect()
        }
    }

    /// Goes over a range page by page; two blocks are open then, one of which is noted here.
    fn bind_range(
        &mut self,
        relation: Relation,
        row: &str,
        ends: &mut Vec<String>,
    ) -> &'static str {
        let (name, depth) = (self.name(relation), self.depth);
        let is_placed = self.layouts.is_placed(relation.collection());
        let (page, value) = stored::range(is_placed, &name, self.runtime);
        self.out.put(format!("local after{depth} = \"\""));
        self.out.open("repeat");
        self.out.put("local values");
        self.out.put(format!("values, after{depth} = {page}prefix{depth}, after{depth})"));
        self.out.open("for key, value in next, values do");
        self.out.put(format!("local {row} = {name}.row(sub(key, #{name}.prefix + 1), {value})"));
        ends.push(format!("until not after{depth}"));
        "end"
    }

    /// The key of a stored row, or its beginning, from the values of its columns; before it, that the
    /// values are there, as no row has nil where its column never is.
    fn key_of(
        &mut self,
        scope: &Scope,
        relation: Relation,
        exprs: &[Expr],
        is_whole: bool,
    ) -> (String, String) {
        let id = relation.collection();
        let mut there = String::new();
        let mut columns: Vec<Typed> = vec![];
        for (column, expr) in exprs.iter().enumerate() {
            let text = self.expr(scope, expr);
            there.push_str(&self.unless_nil(scope, expr, id, column, &text));
            columns.push((text, self.type_of(id, column)));
        }
        let key = match is_whole {
            true => row_key(self.runtime, &columns),
            false => key(self.runtime, &columns, false),
        };
        (there, key)
    }

    /// `text ~= nil and `, where a value may be nil and the column it is looked for in never is.
    pub(super) fn unless_nil(
        &self,
        scope: &Scope,
        expr: &Expr,
        id: CollectionId,
        column: usize,
        text: &str,
    ) -> String {
        match !self.type_of(id, column).may_be_nil && self.may_be_nil(scope, expr) {
            true => format!("{text} ~= nil and "),
            false => String::new(),
        }
    }

    /// Goes on if no row of a relation matches.
    fn absent(
        &mut self,
        scope: &Scope,
        relation: Relation,
        access: &Access,
        remaining: &[&(usize, Expr)],
        predicate: Option<&Expr>,
        ends: &mut Vec<String>,
    ) {
        let found = format!("found{}", self.depth + 1);
        self.out.put(format!("local {found} = false"));
        let mut own_ends = vec!["end".to_owned()];
        self.out.open("do");
        let row = self.bind(scope, relation, access, &mut own_ends);
        let mut inner = Scope { collections: scope.collections.clone(), rows: scope.rows.clone() };
        inner.collections.push(relation.collection());
        inner.rows.push(row.clone());
        let sides: Vec<_> = remaining
            .iter()
            .map(|(column, expr)| (self.column(&row, *column), self.expr(scope, expr)))
            .collect();
        let unlike = sides.iter().filter(|(own, wanted)| own != wanted);
        let mut tests: Vec<_> = unlike.map(|(own, wanted)| format!("{own} == {wanted}")).collect();
        tests.extend(predicate.map(|predicate| self.expr(&inner, predicate)));
        if !tests.is_empty() {
            self.out.open(format!("if {} then", tests.join(" and ")));
            own_ends.push("end".to_owned());
        }
        self.out.put(format!("{found} = true"));
        for end in own_ends.iter().rev() {
            self.out.close(end);
        }
        self.out.open(format!("if not {found} then"));
        ends.push("end".to_owned());
    }

    /// A new row goes where it belongs.
    pub(super) fn put_row(&mut self, head: CollectionId, columns: Vec<String>, target: &Target) {
        if !self.put_scalars(head, &columns, target) {
            self.out.put(format!("local row = {{ {} }}", columns.join(", ")));
            self.put_existing(head, "row".to_owned(), target);
        }
    }

    /// As [`Self::put_row`], for a row that is there and never changes.
    fn put_existing(&mut self, head: CollectionId, row: String, target: &Target) {
        let collection = self.program.collection(head);
        let spelled: Vec<_> = (0..collection.width()).map(|at| self.column(&row, at)).collect();
        if self.put_scalars(head, &spelled, target) {
            return;
        }
        let columns = self.columns(&row, head, collection.key_width);
        let mut row = self.whole(&row);
        if matches!(target, Target::Table) && row.starts_with('{') {
            // It is looked at more than once.
            self.out.put(format!("local row = {row}"));
            row = "row".to_owned();
        }
        let bounds = format!("{}, {}", collection.key_width + 1, collection.width());
        let shown = quoted(collection.name.as_bytes());
        match target {
            Target::Only(name) | Target::OnlyPending(name) => {
                self.out.put(format!("{name} = {row}"))
            }
            Target::OnlyOne(name) => self.put_only_one(head, name, &row),
            Target::Few(name) => {
                let add = self.runtime.need("add_few");
                self.out.put(format!(
                    "{add}({name}, {row}, {}, {}, {shown})",
                    collection.key_width,
                    collection.width()
                ));
            }
            Target::Set(name) => {
                let key = key(self.runtime, &columns, true);
                let add = self.runtime.need("add");
                self.out.put(format!("{add}({name}, {key}, {row}, {bounds}, {shown})"));
            }
            Target::Pending(what) => {
                let key = row_key(self.runtime, &columns);
                let (pend, pending) = (self.runtime.need("pend"), self.pending_name(head));
                let table = self.name(Relation::Stored(head));
                self.out.put(format!("{pend}({pending}, {table}, \"{what}\", {key}, {row})"));
            }
            Target::Table => self.put_into_table(head, &row, &columns, &bounds, &shown),
        }
    }

    /// The one row of a relation that several rules may give: all the same, or the request fails.
    fn put_only_one(&mut self, head: CollectionId, name: &str, row: &str) {
        let collection = self.program.collection(head);
        let differ: Vec<_> = (1..=collection.width())
            .map(|column| format!("{name}[{column}] ~= {row}[{column}]"))
            .collect();
        let conflict = self.runtime.need("conflict");
        self.out.open(format!("if not {name} then"));
        self.out.put(format!("{name} = {row}"));
        if !differ.is_empty() {
            let shown = quoted(collection.name.as_bytes());
            self.out.turn(format!("elseif {} then", differ.join(" or ")));
            self.out.put(format!("{conflict}({shown})"));
        }
        self.out.close("end");
    }

    /// A row is added to a table now: beside what is stored, unless it is stored already.
    fn put_into_table(
        &mut self,
        head: CollectionId,
        row: &str,
        columns: &[Typed],
        bounds: &str,
        shown: &str,
    ) {
        let table = self.name(Relation::Stored(head));
        let local = Relation::Local(head);
        let (name, key) = (self.name(local), key(self.runtime, columns, true));
        self.out.put(format!("local key = {key}"));
        self.out.put(format!("local old = {table}.get(object, key)"));
        self.out.open("if not old then");
        match self.plan.rows_of(local) {
            Rows::Many => {
                let add = self.runtime.need("add");
                self.out.put(format!("{add}({name}, key, {row}, {bounds}, {shown})"));
            }
            _ if self.may_come_twice(head) => self.put_only_one(head, &name, row),
            _ => self.out.put(format!("{name} = {row}")),
        }
        let (same, conflict) = (self.runtime.need("same"), self.runtime.need("conflict"));
        self.out.turn(format!("elseif not {same}(old, {row}, {bounds}) then"));
        self.out.put(format!("{conflict}({shown})"));
        self.out.close("end");
    }
}

/// The source whose whole row is the result, if one is.
fn whole_row(method: &MethodWriter<'_>, select: &Select, head: CollectionId) -> Option<usize> {
    let ExprKind::Column { source, .. } = select.columns.first()?.kind else { return None };
    let width = method.program.collection(select.sources[source]).width();
    let is_whole = select
        .columns
        .iter()
        .enumerate()
        .all(|(column, expr)| expr.kind == ExprKind::Column { source, column });
    (is_whole && width == method.program.collection(head).width() && width == select.columns.len())
        .then_some(source)
}
