//! Emits replies. A reply has a part for each output that has rows, in the order of declaration.
//! Each part is the output's name (`s1`), its number of columns (one byte), its number of rows
//! (`I4`), and the rows in the order of their keys.

use std::collections::BTreeSet;

use super::encoding::{Typed, ends_in_text, quoted, said, said_behind, tag};
use super::method::MethodWriter;
use super::row::Row;
use super::runtime::Runtime;
use crate::ir::{Body, CollectionId, Expr, ExprKind};
use crate::plan::{Relation, Rows, RulePlan};
use crate::syntax::ast::Kind;
use nacre_calls::Value;

/// A string of at least this many bytes is appended to the reply by a call of its own, which saves
/// a copy.
const LONG_TEXT_BYTES: usize = 512;

/// The most different numbers of an output for which the class contains every reply as a literal,
/// to choose from.
const MAX_FEW_NUMBERS: usize = 8;

/// Emits the reply of a number that is one of a few.
fn said_number(
    runtime: &mut Runtime,
    head: &[u8],
    (column, ty): &Typed,
    numbers: &BTreeSet<i64>,
) -> String {
    // The most frequent reply, which says that all went well, is tried first.
    let mut numbers: Vec<_> = numbers.iter().copied().collect();
    numbers.sort_by_key(|number| (*number != 0, number.unsigned_abs()));
    let last = numbers.len() - 1;
    let said = |(at, number): (usize, &i64)| {
        let said = said_behind(runtime, head, &[(number.to_string(), *ty)]);
        if at == last { said } else { format!("{column} == {number} and {said}") }
    };
    numbers.iter().enumerate().map(said).collect::<Vec<_>>().join(" or ")
}

impl MethodWriter<'_> {
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

    /// A Lua function that returns the encoding of a row.
    pub(super) fn row_encoder(&mut self, id: CollectionId) -> String {
        let width = self.program.collection(id).width();
        let columns = self.columns(&Row::Table("row".to_owned()), id, width);
        format!("function(row) return {} end", said(self.runtime, &columns))
    }

    fn reply_row(&mut self, output: CollectionId) {
        let name = self.name(Relation::Local(output));
        let collection = self.program.collection(output);
        let row = self.row(&name);
        let columns = self.columns(&row, output, collection.width());
        let mut head = vec![collection.name.len() as u8];
        head.extend_from_slice(collection.name.as_bytes());
        head.push(collection.width() as u8);
        head.extend_from_slice(&1_u32.to_le_bytes());
        self.out.open(format!("if {} then", row.is_there()));
        match ends_in_text(&columns) {
            Some((before, text)) => {
                let (head, said) = (quoted(&head), said(self.runtime, before));
                let tag = tag(text.1.base);
                let text = &text.0;
                self.out.put(format!(
                    "local said = {head} .. {said} .. pack(\"<c1I4\", \"{tag}\", #{text})"
                ));
                self.out.open(format!("if #{text} < {LONG_TEXT_BYTES} then"));
                self.out.put(format!("output:append(said .. {text})"));
                self.out.turn("else");
                self.out.put("output:append(said)");
                self.out.put(format!("output:append({text})"));
                self.out.close("end");
            }
            None => {
                let said = match (self.few_numbers(output), &columns[..]) {
                    (Some(numbers), [column]) => said_number(self.runtime, &head, column, &numbers),
                    _ => said_behind(self.runtime, &head, &columns),
                };
                self.out.put(format!("output:append({said})"));
            }
        }
        self.out.close("end");
    }

    /// The numbers that an output of one column may have. `None` unless every rule of the output
    /// produces a literal number and there are only a few different ones.
    fn few_numbers(&self, output: CollectionId) -> Option<BTreeSet<i64>> {
        let number = |plan: &RulePlan| match &self.program.rules[plan.rule].body {
            Body::Select(select) => match &select.columns[..] {
                [Expr { kind: ExprKind::Literal(Value::Int(number)), .. }] => Some(*number),
                _ => None,
            },
            _ => None,
        };
        let numbers: Option<BTreeSet<i64>> = self.rules_into(output).map(number).collect();
        numbers.filter(|numbers| (1..=MAX_FEW_NUMBERS).contains(&numbers.len()))
    }

    fn reply_rows(&mut self, output: CollectionId) {
        let name = self.name(Relation::Local(output));
        let collection = self.program.collection(output);
        let width = collection.width();
        let shown = quoted(collection.name.as_bytes());
        let encoder = self.row_encoder(output);
        let say = self.runtime.need("say_set");
        self.out.put(format!("{say}(output, {shown}, {width}, {name}, {encoder})"));
    }
}
