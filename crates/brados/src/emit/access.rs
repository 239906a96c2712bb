//! Emits Lua that finds the rows of a relation: a loop over rows, or the look-up of one row.
//!
//! The emitted code opens Lua blocks in which a row is available. Each relation that a rule joins
//! has a number, and the variables for its rows end in that number. `r1` is the row of the first
//! relation. `g1` holds the rows that an index has for the wanted key; `prefix1` and `after1`
//! describe a range of a table.

use super::encoding::{Typed, key, row_key};
use super::expression::Scope;
use super::method::MethodWriter;
use super::row::Row;
use super::stored::range;
use super::writer::Blocks;
use crate::ir::{CollectionId, Column, Expr};
use crate::plan::{Access, Relation};
use nacre_calls::Type;

impl MethodWriter<'_> {
    /// Opens a Lua block that runs for each row of a relation. Returns the row that is available in
    /// the block.
    pub(super) fn bind(
        &mut self,
        scope: &Scope,
        relation: Relation,
        access: &Access,
        blocks: &mut Blocks,
    ) -> Row {
        self.depth += 1;
        let is_stored = !matches!(relation, Relation::Local(_));
        let name = match access {
            Access::Each | Access::Index(..) if is_stored => self.loaded(relation),
            _ => self.name(relation),
        };
        let rows = format!("{name}.rows");
        match access {
            Access::Only => self.bind_only(&name, blocks),
            Access::Each if self.is_few(relation) => self.bind_few(&name, blocks),
            Access::Each => self.bind_each(&rows, "1", &format!("{name}.count"), blocks),
            Access::EachNew => {
                let (new, upto) = (format!("{name}.new"), format!("{name}.upto"));
                self.bind_each(&rows, &new, &upto, blocks)
            }
            Access::Index(columns, exprs) if self.is_few(relation) => {
                let row = self.bind_few(&name, blocks);
                let pairs = columns.iter().zip(exprs);
                let tests: Vec<_> = pairs
                    .map(|(at, expr)| format!("{} == {}", row.column(*at), self.expr(scope, expr)))
                    .collect();
                blocks.open(self.out, format!("if {} then", tests.join(" and ")));
                row
            }
            Access::Index(columns, exprs) => {
                self.bind_index(scope, &name, relation, columns, exprs, blocks)
            }
            Access::Point(exprs) => self.bind_point(scope, relation, exprs, blocks),
            Access::Prefix(exprs) => self.bind_prefix(scope, relation, exprs, blocks),
            Access::Scan => self.bind_range(relation, &format!("{name}.prefix"), blocks),
        }
    }

    /// The variable name of the present row, if it is a Lua table.
    fn row_name(&self) -> String {
        format!("r{}", self.depth)
    }

    fn bind_only(&mut self, name: &str, blocks: &mut Blocks) -> Row {
        match self.row(name) {
            Row::Table(_) => self.bind_if_there(name, blocks),
            scalars => self.open_if_there(scalars, blocks),
        }
    }

    /// Opens a Lua block that runs if the wanted row exists. `found` is a Lua expression for the
    /// row, false or nil if there is no such row.
    fn bind_if_there(&mut self, found: &str, blocks: &mut Blocks) -> Row {
        let row = self.row_name();
        self.out.put(format!("local {row} = {found}"));
        self.open_if_there(Row::Table(row), blocks)
    }

    fn open_if_there(&mut self, row: Row, blocks: &mut Blocks) -> Row {
        match row.is_there() {
            "true" => blocks.open(self.out, "do"),
            is_there => blocks.open(self.out, format!("if {is_there} then")),
        }
        row
    }

    /// Emits a loop over a part of a list.
    fn bind_each(&mut self, list: &str, first: &str, last: &str, blocks: &mut Blocks) -> Row {
        let row = self.row_name();
        blocks.open(self.out, format!("for i = {first}, {last} do"));
        self.out.put(format!("local {row} = {list}[i]"));
        Row::Table(row)
    }

    fn bind_few(&mut self, name: &str, blocks: &mut Blocks) -> Row {
        self.bind_each(name, "1", &format!("#{name}"), blocks)
    }

    fn bind_index(
        &mut self,
        scope: &Scope,
        name: &str,
        relation: Relation,
        columns: &[usize],
        exprs: &[Expr],
        blocks: &mut Blocks,
    ) -> Row {
        let id = relation.collection();
        let (mut label, mut own, mut wanted) = (vec![], vec![], vec![]);
        for (column, expr) in columns.iter().zip(exprs) {
            let declared = self.type_of(id, *column);
            // A value that may be nil is encoded differently from one that is never nil. If the
            // wanted value or the column may be nil, both are encoded as values that may be nil, so
            // that equal values have equal encodings.
            let may_be_nil = declared.may_be_nil || self.may_be_nil(scope, expr);
            let ty = Type { may_be_nil, ..declared };
            own.push((format!("row[{}]", column + 1), ty));
            wanted.push((self.expr(scope, expr), ty));
            // Two indexes by the same columns differ if only one must distinguish nil.
            label.push(format!("{column}{}", if may_be_nil { "?" } else { "" }));
        }
        let (own, wanted) = (key(self.runtime, &own, true), key(self.runtime, &wanted, true));
        let (index, nothing) = (self.runtime.need("index"), self.runtime.need("NOTHING"));
        let group = format!("g{}", self.depth);
        self.out.put(format!(
            "local {group} = {index}({name}, \"by {}\", function(row) return {own} end)[{wanted}] or {nothing}",
            label.join(",")
        ));
        self.bind_each(&group, "1", &format!("#{group}"), blocks)
    }

    fn bind_point(
        &mut self,
        scope: &Scope,
        relation: Relation,
        exprs: &[Expr],
        blocks: &mut Blocks,
    ) -> Row {
        if let Some(row) = self.look_up_point(scope, relation, exprs) {
            return self.open_if_there(row, blocks);
        }
        let name = self.name(relation);
        let (there, columns) = self.key_columns(scope, relation, exprs);
        let key = row_key(self.runtime, &columns);
        self.bind_if_there(&format!("{there}{name}.get(object, {key})"), blocks)
    }

    /// The row of a table with this key, if the request needs only one look-up for it.
    pub(super) fn look_up_point(
        &mut self,
        scope: &Scope,
        relation: Relation,
        exprs: &[Expr],
    ) -> Option<Row> {
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

    fn bind_prefix(
        &mut self,
        scope: &Scope,
        relation: Relation,
        exprs: &[Expr],
        blocks: &mut Blocks,
    ) -> Row {
        let name = self.name(relation);
        let (there, columns) = self.key_columns(scope, relation, exprs);
        let beginning = key(self.runtime, &columns, false);
        blocks.open(self.out, format!("if {there}true then"));
        self.bind_range(relation, &format!("{name}.prefix .. {beginning}"), blocks)
    }

    /// Emits code that reads a stored relation into a set in memory, where the method first needs
    /// the relation. The set stays valid, because tables do not change before the end of the
    /// request. Returns the Lua variable that holds the set.
    fn loaded(&mut self, relation: Relation) -> String {
        let (name, set) = (self.name(relation), format!("s{}", self.depth));
        let all = self.loaded_relations();
        let is_placed = self.layouts.is_placed(relation.collection());
        let (page, value) = range(is_placed, &name, self.runtime);
        self.out.put(format!("{all} = {all} or {{}}"));
        self.out.put(format!("local {set} = {all}[{name}]"));
        self.out.open(format!("if not {set} then"));
        self.out.put(format!("{set} = {{ rows = {{}}, count = 0 }}"));
        self.out.put(format!("{all}[{name}] = {set}"));
        self.out.put(format!("local prefix, after = {name}.prefix, \"\""));
        self.out.open("repeat");
        self.out.put("local values");
        self.out.put(format!("values, after = {page}prefix, after)"));
        self.out.open("for key, value in next, values do");
        self.out.put(format!("local count = {set}.count + 1"));
        self.out.put(format!("{set}.count = count"));
        self.out.put(format!("{set}.rows[count] = {name}.row(sub(key, #prefix + 1), {value})"));
        self.out.close("end");
        self.out.close("until not after");
        self.out.close("end");
        set
    }

    /// Emits a loop over a range of rows, which are read page by page.
    fn bind_range(&mut self, relation: Relation, prefix: &str, blocks: &mut Blocks) -> Row {
        let (name, depth, row) = (self.name(relation), self.depth, self.row_name());
        let is_placed = self.layouts.is_placed(relation.collection());
        let (page, value) = range(is_placed, &name, self.runtime);
        self.out.put(format!("local prefix{depth} = {prefix}"));
        self.out.put(format!("local after{depth} = \"\""));
        blocks.open_until(self.out, "repeat", format!("until not after{depth}"));
        self.out.put("local values");
        self.out.put(format!("values, after{depth} = {page}prefix{depth}, after{depth})"));
        blocks.open(self.out, "for key, value in next, values do");
        self.out.put(format!("local {row} = {name}.row(sub(key, #{name}.prefix + 1), {value})"));
        Row::Table(row)
    }

    /// Returns a condition, and the values of all or the first key columns of a stored row. The
    /// condition is false if a wanted value is nil but its column is never nil. No row can match
    /// then, and nil cannot be encoded in such a key.
    fn key_columns(
        &mut self,
        scope: &Scope,
        relation: Relation,
        exprs: &[Expr],
    ) -> (String, Vec<Typed>) {
        let id = relation.collection();
        let mut there = String::new();
        let mut columns = vec![];
        for (column, expr) in exprs.iter().enumerate() {
            let text = self.expr(scope, expr);
            there.push_str(&self.unless_nil(scope, expr, id, column, &text));
            columns.push((text, self.type_of(id, column)));
        }
        (there, columns)
    }

    /// Returns the condition `text ~= nil and ` if the value may be nil but is compared with a
    /// column that is never nil. Otherwise returns an empty string. `text` is the Lua expression
    /// for the value.
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
}
