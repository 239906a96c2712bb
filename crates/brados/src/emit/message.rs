//! Requests and replies.
//!
//! A request is the columns of its row, one after another; `tuple.rs` says how each is written. A
//! reply is, for each output with rows in the order of their declaration: its name (`s1`), its width
//! (one byte), the number of its rows (`I4`), and the rows in the order of their keys.

use super::encoding::{Typed, quoted, said};
use super::method::MethodWriter;
use crate::ir::CollectionId;
use crate::plan::{Relation, Rows};
use crate::syntax::ast::Kind;
use crate::value::{Base, Type};

impl MethodWriter<'_> {
    pub(super) fn decode_request(&mut self) {
        let input = self.program.collection(self.plan.input);
        self.out.put("local text, at = input:str(), 1");
        let types: Vec<Type> = input.columns.iter().map(|column| column.ty).collect();
        let names: Vec<_> = (1..=types.len()).map(|at| format!("a{at}")).collect();
        for (name, ty) in names.iter().zip(&types) {
            let read = self.reader(*ty);
            self.out.put(format!("local {name}"));
            self.out.put(format!("{name}, at = {read}"));
        }
        let fail = self.runtime.need("fail");
        self.out.open("if at ~= #text + 1 then");
        let columns: Vec<_> =
            input.columns.iter().map(|column| format!(":{}:{}", column.name, column.ty)).collect();
        let message = format!("the request is no row of {}, [{}]", input.name, columns.join(", "));
        self.out.put(format!("{fail}(-22, {})", quoted(message.as_bytes())));
        self.out.close("end");
        let name = self.name(Relation::Local(self.plan.input));
        self.declare(&name, &format!("{{ {} }}", names.join(", ")));
    }

    /// The call that reads a column at `at`.
    fn reader(&mut self, ty: Type) -> String {
        let (reader, tag) = match ty.base {
            Base::Bool => (self.runtime.need("take_bool"), ""),
            Base::Int => (self.runtime.need("take"), ", \"i\""),
            Base::String | Base::Bytes => (self.runtime.need("take"), ", \"s\""),
        };
        match ty.may_be_nil {
            true => format!("{}({reader}, text, at{tag})", self.runtime.need("take_nil")),
            false => format!("{reader}(text, at{tag})"),
        }
    }

    pub(super) fn reply(&mut self) {
        let outputs: Vec<_> = self.program.of_kind(Kind::Output).collect();
        for output in outputs {
            self.out.line = self.lines.line(self.program.collection(output).span.start);
            match self.plan.rows_of(Relation::Local(output)) {
                Rows::Empty => {}
                Rows::One => self.reply_row(output),
                Rows::Many => self.reply_rows(output),
            }
        }
    }

    /// The bytes of a row in a variable.
    pub(super) fn row_said(&mut self, output: CollectionId, row: &str) -> String {
        let columns: Vec<Typed> = self
            .program
            .collection(output)
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| (format!("{row}[{}]", at + 1), column.ty))
            .collect();
        said(self.runtime, &columns)
    }

    fn reply_row(&mut self, output: CollectionId) {
        let name = self.name(Relation::Local(output));
        let collection = self.program.collection(output);
        let width = collection.width();
        let shown = quoted(collection.name.as_bytes());
        let said = self.row_said(output, &name);
        self.out.open(format!("if {name} then"));
        self.out.put(format!("output:append(pack(\"<s1I1I4\", {shown}, {width}, 1) .. {said})"));
        self.out.close("end");
    }

    fn reply_rows(&mut self, output: CollectionId) {
        let name = self.name(Relation::Local(output));
        let collection = self.program.collection(output);
        let width = collection.width();
        let shown = quoted(collection.name.as_bytes());
        let said = self.row_said(output, "row");
        let say = self.runtime.need("say_set");
        self.out.put(format!(
            "{say}(output, {shown}, {width}, {name}, function(row) return {said} end)"
        ));
    }
}
