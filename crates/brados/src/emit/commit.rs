//! Emits the end of a request: the method first decides all changes, and only then writes them.
//!
//! A method collects the changes of a table in a list (`settle` in `runtime.lua`). If it can change
//! only one row, it needs no list (`emit/only_change.rs`). Stored aggregates are computed before
//! the method writes anything. So a request whose sum becomes too large to be exact fails without
//! having written.

use super::encoding::row_key;
use super::method::MethodWriter;
use super::row::Row;
use crate::ir::CollectionId;
use crate::plan::{Relation, Rows, View};
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
        for table in &tables {
            self.out.line = self.lines.line(self.program.collection(*table).span.start);
            match self.only_change(*table) {
                Some(op) => self.update_only(*table, op),
                None => self.update(*table),
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

    /// The names of the stored aggregates of a table.
    pub(super) fn views_of(&self, table: CollectionId) -> Vec<String> {
        self.kept_views(table).map(|view| self.name(Relation::View(view.collection))).collect()
    }

    /// Emits the calls that complete the sums of a table's aggregates.
    pub(super) fn finish_views(&mut self, table: CollectionId) {
        let with_sums = self.kept_views(table).filter(|view| view.has_sums());
        let views: Vec<_> =
            with_sums.map(|view| self.name(Relation::View(view.collection))).collect();
        for view in views {
            self.out.put(format!("{view}.finish(object)"));
        }
    }

    fn kept_views(&self, table: CollectionId) -> impl Iterator<Item = &View> {
        let views = self.class.views.iter();
        views.filter(move |view| view.table == table && view.is_kept(self.program))
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

    /// Emits code for the rows that `<=` adds to a table. They are stored at the end of the
    /// request, like inserted rows.
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

    fn update(&mut self, table: CollectionId) {
        let (changes, views) = (self.changes_name(table), self.views_of(table));
        if views.is_empty() {
            return;
        }
        self.out.open(format!("for i = 1, #{changes} do"));
        self.out.put(format!("local change = {changes}[i]"));
        for view in &views {
            self.out.put(format!("{view}.update(object, change.old, change.row)"));
        }
        self.out.close("end");
        self.finish_views(table);
    }

    fn store(&mut self, table: CollectionId) {
        let (changes, stored) = (self.changes_name(table), self.name(Relation::Stored(table)));
        self.out.open(format!("for i = 1, #{changes} do"));
        self.out.put(format!("{stored}.put(object, {changes}[i].key, {changes}[i].row)"));
        self.out.close("end");
        for view in self.views_of(table) {
            self.out.put(format!("{view}.flush(object, {changes})"));
        }
    }
}
