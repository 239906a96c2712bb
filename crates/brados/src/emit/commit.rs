//! The end of a request: what is to be written is settled, and only then written.

use super::encoding::{Typed, key, quoted};
use super::method::MethodWriter;
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
            self.settle(*table);
        }
        for table in &tables {
            self.out.line = self.lines.line(self.program.collection(*table).span.start);
            self.store(*table);
        }
        let channels: Vec<_> = self
            .program
            .of_kind(Kind::Channel)
            .filter(|channel| self.is_pending(*channel))
            .collect();
        for channel in channels {
            self.send(channel);
        }
        if self.writes() {
            self.out.put("save_header()");
        }
    }

    fn rows_now(&self, table: CollectionId) -> Rows {
        self.plan.rows_of(Relation::Local(table))
    }

    /// Whether rules put rows into a table, now or at the end.
    fn is_changed(&self, table: CollectionId) -> bool {
        self.rows_now(table) != Rows::Empty || self.is_pending(table)
    }

    fn is_pending(&self, table: CollectionId) -> bool {
        self.plan.rules().any(|plan| {
            let rule = &self.program.rules[plan.rule];
            rule.head == table && rule.op != MergeOp::Now
        })
    }

    fn changes_name(&self, table: CollectionId) -> String {
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
        self.declare(&changes, &format!("{settle}({pending}, {stored})"));
    }

    /// What `<=` put into a table is stored at the end, like what was inserted.
    fn note_rows_now(&mut self, table: CollectionId, pending: &str, stored: &str) {
        let (name, pend) = (self.name(Relation::Local(table)), self.runtime.need("pend"));
        match self.rows_now(table) {
            Rows::Empty => {}
            Rows::One => {
                let collection = self.program.collection(table);
                let columns: Vec<Typed> = (0..collection.key_width)
                    .map(|at| (format!("{name}[{}]", at + 1), collection.columns[at].ty))
                    .collect();
                let key = key(self.runtime, &columns, true);
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

    /// Messages are stored with what else the request changes.
    fn send(&mut self, channel: CollectionId) {
        let messages = self.pending_name(channel);
        let collection = self.program.collection(channel);
        self.out.line = self.lines.line(collection.span.start);
        let (width, shown) = (collection.width(), quoted(collection.name.as_bytes()));
        let said = self.row_said(channel, "row");
        let send = self.runtime.need("send");
        self.out.put(format!(
            "{send}(header, {messages}, {shown}, {width}, function(row) return {said} end)"
        ));
    }

    fn store(&mut self, table: CollectionId) {
        let (changes, stored) = (self.changes_name(table), self.name(Relation::Stored(table)));
        let views: Vec<_> = self
            .class
            .views
            .iter()
            .filter(|view| view.table == table)
            .map(|view| self.name(Relation::View(view.collection)))
            .collect();
        self.out.open(format!("for i = 1, #{changes} do"));
        self.out.put(format!("local change = {changes}[i]"));
        self.out.put(format!("{stored}.put(change.key, change.row)"));
        for view in &views {
            self.out.put(format!("{view}.update(change.old, change.row)"));
        }
        self.out.close("end");
        for view in &views {
            self.out.put(format!("{view}.flush({changes})"));
        }
    }
}
