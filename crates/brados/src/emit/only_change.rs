//! Emits the change of a table of which a request changes at most one row. The method decides and
//! stores this change directly, without a list of changes.

use super::encoding::{Typed, blank, ends_in_text, format, packed, quoted, row_key};
use super::int_key::IntKey;
use super::method::MethodWriter;
use super::request::Rest;
use super::row::Row;
use super::stored::packed_row;
use crate::ir::CollectionId;
use crate::plan::{Relation, Rows};
use crate::syntax::token::MergeOp;

impl MethodWriter<'_> {
    /// The kind of the change, if a request changes at most one row of the table. `None` if it may
    /// change several rows.
    pub(super) fn only_change(&self, table: CollectionId) -> Option<MergeOp> {
        if self.rows_now(table) != Rows::Empty {
            return None;
        }
        let mut plans =
            self.plan.rules().filter(|plan| self.program.rules[plan.rule].head == table);
        match (plans.next(), plans.next()) {
            (Some(plan), None) if plan.rows == Rows::One => Some(self.program.rules[plan.rule].op),
            _ => None,
        }
    }

    /// Emits the test whether the one row is a change. Only then it stays pending.
    pub(super) fn settle_only(&mut self, table: CollectionId, op: MergeOp) {
        match self.row(&self.pending_name(table)) {
            row @ Row::Scalars(_) => self.settle_scalars(table, op, &row),
            Row::Table(row) => self.settle_row(table, op, &row),
        }
    }

    fn settle_row(&mut self, table: CollectionId, op: MergeOp, row: &str) {
        let stored = self.name(Relation::Stored(table));
        let (key_name, old) = (format!("{row}_k"), format!("{row}_o"));
        let collection = self.program.collection(table);
        let (first, last) = (collection.key_width + 1, collection.width());
        let (shown, key) = (quoted(collection.name.as_bytes()), self.key_of_row(table, row));
        self.declare(&key_name, "nil");
        if self.is_put_unseen(table, op) {
            self.out.open(format!("if {row} then"));
            self.out.put(format!("{key_name} = {key}"));
            self.out.close("end");
            return;
        }
        self.declare(&old, "nil");
        let same = self.runtime.need("same");
        let is_same = format!("{old} and {same}({old}, {row}, {first}, {last})");
        self.out.open(format!("if {row} then"));
        self.out.put(format!("{key_name} = {key}"));
        self.out.put(format!("{old} = {stored}.get(object, {key_name}) or nil"));
        match op {
            MergeOp::Delete => self.out.open(format!("if not ({is_same}) then")),
            MergeOp::Insert => {
                let conflict = self.runtime.need("conflict");
                self.out.open(format!("if {old} then"));
                self.out.open(format!("if not {same}({old}, {row}, {first}, {last}) then"));
                self.out.put(format!("{conflict}({shown}, {old}, {row}, {first}, {last})"));
                self.out.close("end");
            }
            _ => self.out.open(format!("if {is_same} then")),
        }
        self.out.put(format!("{row} = nil"));
        self.out.close("end");
        self.out.close("end");
    }

    fn settle_scalars(&mut self, table: CollectionId, op: MergeOp, row: &Row) {
        if self.is_put_unseen(table, op) {
            return;
        }
        let (is_pending, collection) = (row.is_there(), self.program.collection(table));
        let (key_width, width) = (collection.key_width, collection.width());
        let shown = quoted(collection.name.as_bytes());
        self.out.open(format!("if {is_pending} then"));
        let old = self.stored_row(table, row);
        let is_there = old.is_there();
        let equal: String = (key_width..width)
            .map(|at| {
                let (old, new) = (old.column(at), row.column(at));
                // Rarely is anything there to be compared with.
                let rest = self.rest_called(&new);
                format!(" and {old} == {}", rest.map_or(new, Rest::cut))
            })
            .collect();
        match op {
            MergeOp::Delete => self.out.open(format!("if not ({is_there}{equal}) then")),
            MergeOp::Insert => {
                self.out.open(format!("if {is_there} then"));
                if width > key_width {
                    let conflict = self.runtime.need("conflict");
                    self.out.open(format!("if not ({is_there}{equal}) then"));
                    let columns = |row: &Row| {
                        let cut =
                            |column: String| self.rest_called(&column).map_or(column, Rest::cut);
                        let columns: Vec<_> = (0..width).map(|at| cut(row.column(at))).collect();
                        format!("{{ {} }}", columns.join(", "))
                    };
                    let rows = format!("{}, {}", columns(&old), columns(row));
                    self.out
                        .put(format!("{conflict}({shown}, {rows}, {}, {width})", key_width + 1));
                    self.out.close("end");
                }
            }
            _ => self.out.open(format!("if {is_there}{equal} then")),
        }
        self.out.put(format!("{is_pending} = false"));
        self.out.close("end");
        self.out.close("end");
    }

    /// Whether a row is written without a look-up of the old row. This is possible if nothing else
    /// depends on the old row. A look-up could only save the write of a row that equals the old
    /// one, and costs more than that write.
    fn is_put_unseen(&self, table: CollectionId, op: MergeOp) -> bool {
        op == MergeOp::Replace
            && self.views_of(table).is_empty()
            && !self.program.collection(table).is_singleton()
            && !self.layouts.is_placed(table)
            && !self.program.has_removal()
    }

    /// Emits the look-up of the stored row with the key of `row`.
    fn stored_row(&mut self, table: CollectionId, row: &Row) -> Row {
        let key_width = self.program.collection(table).key_width;
        let key = self.columns(row, table, key_width);
        let spelled: Vec<_> = key.iter().map(|(column, _)| column.clone()).collect();
        self.look_up(table, &spelled).unwrap_or_else(|| {
            let (stored, key) = (self.name(Relation::Stored(table)), row_key(self.runtime, &key));
            self.out.put(format!("local old = {stored}.get(object, {key}) or nil"));
            Row::Table("old".to_owned())
        })
    }

    /// Emits the update of the table's aggregates by the one row, if the row is a change.
    pub(super) fn update_only(&mut self, table: CollectionId, op: MergeOp) {
        let (views, pending) = (self.views_of(table), self.pending_name(table));
        if views.is_empty() {
            return;
        }
        let Row::Table(row) = self.row(&pending) else { return };
        let new = if op == MergeOp::Delete { "nil" } else { &row };
        self.out.open(format!("if {row} then"));
        // Update all aggregates before one is stored, because two declared aggregates with the same
        // meaning share one stored state.
        for view in &views {
            self.out.put(format!("{view}.update(object, {row}_o, {new})"));
        }
        self.finish_views(table);
        self.out.close("end");
    }

    pub(super) fn store_only(&mut self, table: CollectionId, op: MergeOp) {
        match self.row(&self.pending_name(table)) {
            row @ Row::Scalars(_) => self.store_scalars(table, op, &row),
            Row::Table(row) => self.store_row(table, op, &row),
        }
    }

    fn store_row(&mut self, table: CollectionId, op: MergeOp, row: &str) {
        let stored = self.name(Relation::Stored(table));
        let key = format!("{row}_k");
        let new = if op == MergeOp::Delete { "nil" } else { row };
        self.out.open(format!("if {row} then"));
        self.out.put(format!("{stored}.put(object, {key}, {new})"));
        for view in self.views_of(table) {
            self.out.put(format!("{view}.flush(object, {{ {{ key = {key}, row = {new} }} }})"));
        }
        self.out.close("end");
    }

    fn store_scalars(&mut self, table: CollectionId, op: MergeOp, row: &Row) {
        let collection = self.program.collection(table);
        let (key_width, width) = (collection.key_width, collection.width());
        let columns = self.columns(row, table, width);
        self.out.open(format!("if {} then", row.is_there()));
        match self.layouts.stored.header.start(table) {
            Some(start) => self.store_in_header(start, &columns, op),
            None => {
                let (of_key, of_value) = columns.split_at(key_width);
                let key = self.whole_key(table, of_key);
                match (op, self.int_key(table, of_key)) {
                    (MergeOp::Delete, _) => self.out.put(format!("objclass.map_remove_key({key})")),
                    (_, Some(int)) => self.store_under_int(&int, &key, of_value),
                    _ => self.store_value(&key, of_value),
                }
            }
        }
        self.out.close("end");
    }

    fn store_in_header(&mut self, start: usize, columns: &[Typed], op: MergeOp) {
        let is_put = op != MergeOp::Delete;
        self.out.put(format!("object[{start}] = {}", u8::from(is_put)));
        let mut at = start;
        for column in columns {
            let values = if is_put { packed(column) } else { blank(column.1) };
            for value in values {
                at += 1;
                self.out.put(format!("object[{at}] = {value}"));
            }
        }
        self.out.put("object.is_changed = true");
    }

    /// Emits the storing of a row whose key is one number. `key` is an expression for the key.
    fn store_under_int(&mut self, int: &IntKey, key: &str, columns: &[Typed]) {
        let arguments = int.arguments();
        let is_literal = |text: &str| text.starts_with('"');
        let stored = match ends_in_text(columns) {
            Some((before, (text, _))) if !is_literal(text) => {
                let Some(from) = self.rest_called(text).map(|rest| rest.from) else {
                    return self.store_value(key, columns);
                };
                let (set, before) = (self.runtime.need("set_int_rest"), packed_row(before));
                format!("{set}({arguments}, {before}, {from}, input)")
            }
            _ => {
                let set = self.runtime.need("set_int");
                format!("{set}({arguments}, {})", packed_row(columns))
            }
        };
        self.out.put(stored);
    }

    /// Emits the storing of a value. If the last column is a string, it is passed to the store
    /// separately from the other columns, which saves a copy.
    fn store_value(&mut self, key: &str, columns: &[Typed]) {
        match ends_in_text(columns) {
            Some((before, (text, _))) => {
                let format = format(before.iter().map(|(_, ty)| *ty));
                let values: String =
                    before.iter().flat_map(packed).map(|value| value + ", ").collect();
                let pack = |length: &str| format!("pack(\"<{format}I4\", {values}{length})");
                let stored = match self.rest_called(text) {
                    Some(rest) => {
                        let from = rest.from;
                        let set = self.runtime.need("set_rest");
                        format!("{set}({key}, {}, {from}, input)", pack(Rest::LENGTH))
                    }
                    None => {
                        let set = self.runtime.need("set_parts");
                        format!("{set}({key}, {}, {text})", pack(&format!("#{text}")))
                    }
                };
                self.out.put(stored);
            }
            None => {
                let set = self.runtime.need("set");
                self.out.put(format!("{set}({key}, {})", packed_row(columns)));
            }
        }
    }
}
