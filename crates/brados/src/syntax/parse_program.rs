//! The outermost level of the grammar: `state do … end`, `bloom do … end`, lines with layouts.

use super::ast::{Block, Program};
use super::parser::{Parser, Reported};
use super::token::Token;
use crate::diagnostic::{Diagnostic, Diagnostics, suggestion};
use crate::span::Span;

/// The tree of a source.
pub(crate) fn parse(source: &str, tokens: Vec<Token>, diagnostics: &mut Diagnostics) -> Program {
    Parser::new(source, tokens, diagnostics).program()
}

impl Parser<'_> {
    fn program(&mut self) -> Program {
        let mut program = Program::default();
        loop {
            self.skip_lines();
            let start = self.position();
            match self.word() {
                Some("state") => self.state(&mut program.declarations),
                Some("bloom") => program.blocks.extend(self.bloom()),
                Some("layout" | "former") => self.layout_line(&mut program.layouts),
                _ if self.at_end() => return program,
                _ => self.stray_outside(),
            }
            if self.position() == start {
                self.advance();
            }
        }
    }

    /// Something that is in no `state` or `bloom`.
    fn stray_outside(&mut self) {
        let span = self.span();
        let word = self.word().unwrap_or_default().to_owned();
        if word == "end" {
            let error = Diagnostic::error(span, "this `end` closes nothing");
            self.diagnostics.add(error);
            return self.skip_line();
        }
        let message = format!("{} is outside of `state` and `bloom`", self.shown());
        let help = suggestion(&word, ["state", "bloom"]).unwrap_or_else(|| {
            "put declarations into `state do … end`, rules into `bloom do … end`".into()
        });
        self.diagnostics.add(Diagnostic::error(span, message).help(help));
        while !self.at_end()
            && !matches!(self.word(), Some("state" | "bloom" | "layout" | "former"))
        {
            self.skip_line();
            self.skip_lines();
        }
    }

    fn bloom(&mut self) -> Option<Block> {
        let opening = self.span();
        self.advance();
        let name = match self.eat(":") {
            true => self.name("the block's name").ok(),
            false => None,
        };
        if self.expect_word("do").is_err() {
            self.skip_line();
        }
        let mut rules = vec![];
        while self.is_inside(opening, "bloom") {
            let start = self.position();
            match self.rule() {
                Ok(rule) => {
                    rules.push(rule);
                    self.expect_line_end();
                }
                Err(Reported) => self.recover(start),
            }
        }
        Some(Block { name, rules })
    }

    /// Whether another line of a block opened at `opening` follows; its `end` is taken.
    pub fn is_inside(&mut self, opening: Span, what: &str) -> bool {
        self.skip_lines();
        match self.word() {
            Some("end") => {
                self.advance();
                self.expect_line_end();
                false
            }
            Some("state" | "bloom") if !self.next_is_merge() => self.unclosed(opening, what),
            _ if self.at_end() => self.unclosed(opening, what),
            _ => true,
        }
    }

    fn unclosed(&mut self, opening: Span, what: &str) -> bool {
        let error = Diagnostic::error(opening, format!("this `{what}` is not closed"));
        self.diagnostics.add(error.help("close it with `end` on a line of its own"));
        false
    }
}
