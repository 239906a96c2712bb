//! The end of a request: what is to be written is settled, and only then written.
//!
//! What becomes of a table is a list of changes (`settle` in `runtime.lua`), unless the request can change one
//! row only (`emit/only_change.rs`).

use super::encoding::row_key;
use super::method::MethodWriter;
use super::row::Row;
use crate::ir::CollectionId;
use crate::plan::{Relation, Rows};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

impl MethodWriter<'_> {
    pub(super) fn commit(&mut self) {
        let tables: Vec<_> =
            self.program.of_kind(Kind::Table).filter(|table| self.is_changed(*table)).collect();
        for table in &tables {
            self.out.line = self.lines.line(self.program.collection(*table).span.start);
            match self.only_change(*table) {
                Some(op) => self.settle_only(*table, op),
                None => self.settle(*table),
            }
        }
        let channels = self.channels_sent();
        self.make_room(&channels);
        self.recall_removal(&tables, &channels);
        for table in &tables {
            self.out.line = self.lines.line(self.program.collection(*table).span.start);
            match self.only_change(*table) {
                Some(op) => self.store_only(*table, op),
                None => self.store(*table),
            }
        }
        channels.iter().for_each(|channel| self.send(*channel));
    }

    pub(super) fn rows_now(&self, table: CollectionId) -> Rows {
        self.plan.rows_of(Relation::Local(table))
    }

    /// Whether rules put rows into a table, now or at the end.
    fn is_changed(&self, table: CollectionId) -> bool {
        self.rows_now(table) != Rows::Empty || self.is_pending(table)
    }

    pub(super) fn is_pending(&self, table: CollectionId) -> bool {
        self.plan.rules().any(|plan| {
            let rule = &self.program.rules[plan.rule];
            rule.head == table && rule.op != MergeOp::Now
        })
    }

    pub(super) fn views_of(&self, table: CollectionId) -> Vec<String> {
        let views = self.class.views.iter();
        let views = views.filter(|view| view.table == table && view.is_kept(self.program));
        views.map(|view| self.name(Relation::View(view.collection))).collect()
    }

    pub(super) fn key_of_row(&mut self, table: CollectionId, row: &str) -> String {
        let collection = self.program.collection(table);
        let row = Row::Table(row.to_owned());
        let columns = self.columns(&row, table, collection.key_width);
        row_key(self.runtime, &columns)
    }

    pub(super) fn changes_name(&self, table: CollectionId) -> String {
        format!("{}_c", self.pending_name(table))
    }

    fn settle(&mut self, table: CollectionId) {
        let pending = self.pending_name(table);
        let stored = self.name(Relation::Stored(table));
        if !self.is_pending(table) {
            self.declare(&pending, "{}");
        }
        self.note_rows_now(table, &pending, &stored);
        let settle = self.runtime.need("settle");
        let changes = self.changes_name(table);
        self.declare(&changes, &format!("{settle}(object, {pending}, {stored})"));
    }

    /// What `<=` put into a table is stored at the end, like what was inserted.
    fn note_rows_now(&mut self, table: CollectionId, pending: &str, stored: &str) {
        let (name, pend) = (self.name(Relation::Local(table)), self.runtime.need("pend"));
        match self.rows_now(table) {
            Rows::Empty => {}
            Rows::One => {
                let key = self.key_of_row(table, &name);
                self.out.open(format!("if {name} then"));
                self.out.put(format!("{pend}({pending}, {stored}, \"now\", {key}, {name})"));
                self.out.close("end");
            }
            Rows::Many => {
                self.out.open(format!("for i = 1, {name}.count do"));
                self.out.put(format!(
                    "{pend}({pending}, {stored}, \"now\", {name}.keys[i], {name}.rows[i])"
                ));
                self.out.close("end");
            }
        }
    }

    fn store(&mut self, table: CollectionId) {
        let (changes, stored) = (self.changes_name(table), self.name(Relation::Stored(table)));
        let views = self.views_of(table);
        self.out.open(format!("for i = 1, #{changes} do"));
        self.out.put(format!("local change = {changes}[i]"));
        self.out.put(format!("{stored}.put(object, change.key, change.row)"));
        for view in &views {
            self.out.put(format!("{view}.update(object, change.old, change.row)"));
        }
        self.out.close("end");
        for view in &views {
            self.out.put(format!("{view}.flush(object, {changes})"));
        }
    }
}
