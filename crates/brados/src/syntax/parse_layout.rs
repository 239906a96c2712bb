//! `layout …` and `former layout …`: lines of their own, outside of `state` and `bloom`.

use super::ast::LayoutLine;
use super::parser::{Parsed, Parser};
use super::token::TokenKind;
use crate::diagnostic::Diagnostic;
use crate::layout::LayoutError;
use crate::span::Span;

impl Parser<'_> {
    pub(super) fn layout_line(&mut self, layouts: &mut Vec<LayoutLine>) {
        let start = self.span();
        let is_former = self.eat_word("former");
        if self.expect_word("layout").is_err() {
            return self.skip_line();
        }
        let (from, mut upto) = (self.span().start, self.last_span().end);
        while !matches!(self.peek().kind, TokenKind::Newline | TokenKind::End) {
            upto = self.advance().span.end;
        }
        let text = &self.source[from.min(upto) as usize..upto as usize];
        match text.parse() {
            Ok(layout) => {
                let span = Span { start: start.start, end: upto };
                layouts.push(LayoutLine { layout, is_former, span });
            }
            Err(error) => self.no_layout(from.min(upto), error),
        }
    }

    /// Refuses a layout among rules or declarations.
    pub(super) fn no_layout_here(&mut self) -> Parsed<()> {
        let is_layout = matches!(self.word(), Some("layout" | "former"));
        if !is_layout || self.next_kind() != Some(&TokenKind::Word) {
            return Ok(());
        }
        let span = self.span();
        let error = Diagnostic::error(span, "a layout is outside of `state` and `bloom`");
        Err(self.report(error.help("put its line after the last `end`")))
    }

    fn no_layout(&mut self, from: u32, error: LayoutError) {
        let start = from as usize + error.at;
        let span = Span::new(start, (start + error.length).min(self.source.len().max(start)));
        self.report(Diagnostic::error(span, error.message).maybe_help(error.help));
    }
}
