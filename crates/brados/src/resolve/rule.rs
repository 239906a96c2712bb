//! Resolves a rule: its computation and its target. Checks that the rule may write there.

use super::chain::Rows;
use super::declare::untyped_column;
use super::{Reported, Resolved, Resolver, Temp};
use crate::diagnostic::{Diagnostic, counted, listing};
use crate::ir::{self, Collection, CollectionId};
use crate::span::Span;
use crate::syntax::ast::{self, Kind, Name};
use crate::syntax::token::MergeOp;

impl<'a> Resolver<'a> {
    pub(super) fn rule(&mut self, rule: &'a ast::Rule) -> Resolved<()> {
        if rule.is_temp {
            return match self.temps.get(&rule.head.text) {
                // Do not report the rule that defines the collection again.
                Some(Temp::Unresolved(first)) if !std::ptr::eq(*first, rule) => Ok(()),
                Some(Temp::Unresolved(_)) => self.temp(rule).map(|_| ()),
                _ => Ok(()),
            };
        }
        let head = self.find(&rule.head)?;
        self.check_op(head, rule)?;
        let rows = self.rows(&rule.body)?;
        self.check_width(head, &rows, &rule.body)?;
        let body = rows.body;
        self.program.rules.push(ir::Rule { head, op: rule.op, body, span: rule.span });
        Ok(())
    }

    /// Resolves the rule that defines a `temp`.
    pub(super) fn temp(&mut self, rule: &'a ast::Rule) -> Resolved<CollectionId> {
        self.temps.insert(rule.head.text.clone(), Temp::UnderWay);
        let result = self.temp_rows(rule);
        let state = match &result {
            Ok(id) => Temp::Resolved(*id),
            Err(Reported) => Temp::Failed,
        };
        self.temps.insert(rule.head.text.clone(), state);
        result
    }

    fn temp_rows(&mut self, rule: &'a ast::Rule) -> Resolved<CollectionId> {
        if rule.op == MergeOp::Send {
            return self.sent_into(rule, "temp");
        }
        if rule.op != MergeOp::Now {
            return self.deferred_into(rule, "temp");
        }
        let rows = self.rows(&rule.body)?;
        let head = self.add_rows(&rule.head, false, &rows);
        let body = rows.body;
        self.program.rules.push(ir::Rule { head, op: rule.op, body, span: rule.span });
        Ok(head)
    }

    /// Adds a collection with these columns. The caller adds the rule that computes its rows.
    pub(super) fn add_rows(
        &mut self,
        name: &Name,
        is_anonymous: bool,
        rows: &Rows,
    ) -> CollectionId {
        let columns: Vec<_> =
            rows.names.iter().map(|column| untyped_column(column, None, name.span)).collect();
        self.add_collection(Collection {
            name: name.text.clone(),
            kind: Kind::Temp,
            is_anonymous,
            key_width: rows.key_width,
            columns,
            span: name.span,
        })
    }

    fn check_op(&mut self, head: CollectionId, rule: &ast::Rule) -> Resolved<()> {
        let kind = self.collection(head).kind;
        let name = &rule.head.text;
        let deferred = matches!(rule.op, MergeOp::Insert | MergeOp::Delete | MergeOp::Replace);
        let (message, help) = match (kind, rule.op) {
            (Kind::Table, MergeOp::Send) => (
                format!("the table `{name}` is no channel"),
                "`<~` sends into a channel; `<+` inserts into a table".to_owned(),
            ),
            (Kind::Table, _) | (Kind::Channel, MergeOp::Send) => return Ok(()),
            (Kind::Scratch | Kind::Temp | Kind::Output, MergeOp::Now) => return Ok(()),
            (Kind::Input, _) => (
                format!("the input `{name}` cannot be written"),
                "its row is the request; put rows into a `scratch` of `.schema`".to_owned(),
            ),
            (Kind::Channel, op) => (
                format!("`{op}` does not send into the channel `{name}`"),
                format!("write `{name} <~ …`: what is sent goes out after the request"),
            ),
            (Kind::Output, _) => {
                (format!("the output `{name}` is replied now"), format!("write `{name} <= …`"))
            }
            (Kind::Scratch | Kind::Temp, _) if deferred => {
                return self.deferred_into(rule, kind.as_str());
            }
            (Kind::Scratch | Kind::Temp, _) => return self.sent_into(rule, kind.as_str()),
        };
        self.error(Diagnostic::error(rule.op_span, message).help(help))
    }

    fn sent_into<T>(&mut self, rule: &ast::Rule, kind: &str) -> Resolved<T> {
        let message = format!("the {kind} `{}` is no channel", rule.head.text);
        let error = Diagnostic::error(rule.op_span, message);
        self.error(error.help("declare it as a `channel` to send"))
    }

    fn deferred_into<T>(&mut self, rule: &ast::Rule, kind: &str) -> Resolved<T> {
        let name = &rule.head.text;
        let message =
            format!("`{}` defers into the {kind} `{name}`, which ends with the request", rule.op);
        let help = format!("write `{name} <= …`, or declare it as a `table`");
        self.error(Diagnostic::error(rule.op_span, message).help(help))
    }

    fn check_width(
        &mut self,
        head: CollectionId,
        rows: &Rows,
        body: &ast::Relation,
    ) -> Resolved<()> {
        let collection = self.collection(head);
        let (wanted, got) = (collection.width(), rows.names.len());
        if wanted == got {
            return Ok(());
        }
        if wanted == 0 {
            // Its schema has a mistake, which was reported.
            return Err(Reported);
        }
        let span = row_span(body);
        let names = || collection.columns.iter().map(|column| column.name.as_str());
        let message = format!(
            "`{}` has {}, {}; this has {}",
            collection.name,
            counted(wanted, "column"),
            listing(names()),
            counted(got, "column")
        );
        let help = match wanted > got && body.block.is_some() {
            true => {
                let are = if wanted - got == 1 { "is" } else { "are" };
                format!("also say what {} {are}; `nil` is a value", listing(names().skip(got)))
            }
            false => "write a block that makes a row of the right columns: {|x| [x.…]}".to_owned(),
        };
        let error = Diagnostic::error(span, message).note(collection.span, "declared here");
        self.error(error.help(help))
    }
}

/// Where the row is that a relation makes.
fn row_span(body: &ast::Relation) -> Span {
    body.block.as_ref().map_or(body.span, |block| block.body.span)
}
