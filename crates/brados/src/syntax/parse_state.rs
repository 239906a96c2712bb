//! `state do … end`: declarations.

use super::ast::{Column, Declaration, Kind, Name, Schema};
use super::parser::{Parsed, Parser, Reported};
use super::token::TokenKind;
use crate::diagnostic::{Diagnostic, listing, suggestion};
use crate::span::Span;
use nacre_calls::Base;

const KINDS: [&str; 6] = ["table", "scratch", "channel", "interface", "input", "output"];

impl Parser<'_> {
    pub(super) fn state(&mut self, declarations: &mut Vec<Declaration>) {
        let opening = self.span();
        self.advance();
        if self.expect_word("do").is_err() {
            self.recover(self.position());
        }
        while self.is_inside(opening, "state") {
            let start = self.position();
            match self.declaration() {
                Ok(declaration) => {
                    declarations.push(declaration);
                    self.expect_line_end();
                }
                Err(Reported) => self.recover(start),
            }
        }
    }

    fn declaration(&mut self) -> Parsed<Declaration> {
        let kind = self.kind()?;
        self.expect(":")?;
        let name = self.name("the collection's name")?;
        if self.is("[") {
            let error = Diagnostic::error(self.span(), "a comma belongs before the columns");
            let help = format!("write `:{}, [:column, …]`", name.text);
            self.report(error.help(help));
        } else if !self.eat(",") {
            return Err(self.no_schema(kind, &name));
        }
        self.skip_lines();
        let schema = self.schema()?;
        Ok(Declaration { kind, name, schema })
    }

    fn kind(&mut self) -> Parsed<Kind> {
        let span = self.span();
        self.no_layout_here()?;
        if matches!(self.next_kind(), Some(TokenKind::Merge(_))) {
            let error = Diagnostic::error(span, "a rule is in `bloom`, not in `state`");
            return Err(self.report(error.help("move it into `bloom do … end`")));
        }
        let word = self.word();
        match word {
            Some("table") => self.kind_is(Kind::Table),
            Some("scratch") => self.kind_is(Kind::Scratch),
            Some("channel") => self.kind_is(Kind::Channel),
            Some("interface") => {
                self.advance();
                let kind = match self.word() {
                    Some("input") => Kind::Input,
                    Some("output") => Kind::Output,
                    _ => return Err(self.unexpected("`input` or `output`")),
                };
                self.advance();
                // `interface input, :name` is written as well.
                self.eat(",");
                Ok(kind)
            }
            Some("temp") => {
                let error = Diagnostic::error(span, "a `temp` is not declared");
                let help = "write `temp :name <= …` where it is computed, or declare a `scratch`";
                self.diagnostics.add(error.help(help));
                Err(Reported)
            }
            Some(word) => {
                let message = format!("`{word}` is no kind of collection");
                let near = suggestion(word, KINDS);
                let help = near.unwrap_or_else(|| {
                    let kinds =
                        ["table", "scratch", "channel", "interface input", "interface output"];
                    format!("there are {}", listing(kinds))
                });
                self.diagnostics.add(Diagnostic::error(span, message).help(help));
                Err(Reported)
            }
            None => Err(self.unexpected("a declaration or `end`")),
        }
    }

    fn kind_is(&mut self, kind: Kind) -> Parsed<Kind> {
        self.advance();
        Ok(kind)
    }

    fn no_schema(&mut self, kind: Kind, name: &Name) -> Reported {
        let message = format!("`{}` has no columns", name.text);
        let help = format!("write `{} :{}, [:column, …]`", kind.as_str(), name.text);
        self.diagnostics.add(Diagnostic::error(name.span, message).help(help));
        Reported
    }

    fn schema(&mut self) -> Parsed<Schema> {
        if self.is("[") {
            let keys = self.columns()?;
            let values = match self.eat("=>") {
                true => {
                    self.skip_lines();
                    Some(self.columns()?)
                }
                false => None,
            };
            return Ok(Schema::Columns { keys, values });
        }
        let of = self.name("a schema")?;
        self.expect(".")?;
        self.expect_word("schema")?;
        Ok(Schema::SameAs(of))
    }

    fn columns(&mut self) -> Parsed<Vec<Column>> {
        self.expect("[")?;
        self.inside(|parser| {
            let mut columns = vec![];
            while !parser.is("]") {
                columns.push(parser.column()?);
                if !parser.eat(",") && !parser.is("]") {
                    return Err(parser.unexpected("`,` or `]`"));
                }
            }
            parser.expect("]")?;
            Ok(columns)
        })
    }

    fn column(&mut self) -> Parsed<Column> {
        self.expect(":")?;
        let name = self.column_name()?;
        let mut column = Column { name, base: None, may_be_nil: false };
        if self.eat(":") {
            column.base = Some(self.base()?);
            column.may_be_nil = self.eat("?");
        }
        Ok(column)
    }

    fn base(&mut self) -> Parsed<Base> {
        let span: Span = self.span();
        let Some(word) = self.word() else { return Err(self.unexpected("a type")) };
        let names = Base::ALL.map(Base::as_str);
        let Some(base) = Base::ALL.into_iter().find(|base| base.as_str() == word) else {
            let help = suggestion(word, names).unwrap_or_else(|| {
                format!("there are {}; `?` after one allows nil", listing(names))
            });
            let error = Diagnostic::error(span, format!("`{word}` is no type"));
            self.diagnostics.add(error.help(help));
            return Err(Reported);
        };
        self.advance();
        Ok(base)
    }
}
