//! Formats Brados sources. The formatter changes only indentation and blanks; lines and comments
//! stay where they are.
//!
//! It works on tokens. A line is indented one level more than the line that opened the innermost
//! open bracket or block. A line that continues the previous one is indented one level more.
//! Formatting a formatted source changes nothing.

use crate::compile::CompileErrors;
use crate::diagnostic::Diagnostics;
use crate::syntax::lexer::tokens;
use crate::syntax::parse;
use crate::syntax::token::{Token, TokenKind};

const INDENT: &str = "  ";
/// Words between values, after which a bracket opens an expression of its own.
const OPERATORS: [&str; 5] = ["if", "unless", "and", "or", "not"];

/// The source, formatted.
///
/// # Errors The reason, if the source is not a program.
pub fn format(source: &str) -> Result<String, CompileErrors> {
    let mut diagnostics = Diagnostics::default();
    let tokens = tokens(source, &mut diagnostics);
    parse(source, tokens.clone(), &mut diagnostics);
    if diagnostics.has_errors() {
        return Err(CompileErrors(diagnostics.into_sorted()));
    }
    let mut formatter = Formatter { source, open: vec![], continues: false, out: String::new() };
    for line in tokens.split(|token| token.kind == TokenKind::Newline) {
        formatter.line(line);
    }
    Ok(formatter.out.trim_end().to_owned() + "\n")
}

struct Formatter<'a> {
    source: &'a str,
    /// For each open bracket or block, the indentation of the line that opened it.
    open: Vec<usize>,
    /// Whether the line before goes on.
    continues: bool,
    out: String,
}

impl<'a> Formatter<'a> {
    fn line(&mut self, tokens: &[Token]) {
        let tokens: Vec<_> = tokens.iter().filter(|token| token.kind != TokenKind::End).collect();
        let Some(first) = tokens.first() else { return self.blank_line() };
        if self.open.is_empty() && self.layout_line(&tokens) {
            return;
        }
        let indent = self.indent(first, &tokens);
        self.out.push_str(&INDENT.repeat(indent));
        let mut in_parameters = false;
        for (at, token) in tokens.iter().enumerate() {
            let before = tokens[..at].last().copied();
            let pipe = self.pipe(before, token, &mut in_parameters);
            if at > 0 && self.has_blank(&tokens[..at], token, pipe) {
                self.out.push(' ');
            }
            if token.kind == TokenKind::Comment && at > 0 {
                self.out.push(' ');
            }
            self.out.push_str(self.text(token));
            match self.opens(before, token) {
                Some(true) => self.open.push(indent),
                Some(false) => drop(self.open.pop()),
                None => {}
            }
        }
        self.out.push('\n');
        let last = tokens.iter().rev().find(|token| token.kind != TokenKind::Comment);
        if let Some(last) = last {
            self.continues = self.goes_on(last);
        }
    }

    /// A line that declares a layout has its blanks as in a printed layout: `log: slots(16), …`.
    fn layout_line(&mut self, tokens: &[&Token]) -> bool {
        let words = tokens.iter().take(2).map(|token| self.text(token));
        if !matches!(words.collect::<Vec<_>>()[..], ["layout", ..] | ["former", "layout"]) {
            return false;
        }
        for (at, token) in tokens.iter().enumerate() {
            let is_close = [":", ",", "(", ")"].iter().any(|text| token.is(text));
            let blanks = match tokens[..at].last() {
                _ if token.kind == TokenKind::Comment && at > 0 => "  ",
                Some(before) if !is_close && !before.is("(") => " ",
                _ => "",
            };
            self.out.push_str(blanks);
            self.out.push_str(self.text(token));
        }
        self.out.push('\n');
        self.continues = false;
        true
    }

    /// At most one empty line in a row, and none at the beginning of a block.
    fn blank_line(&mut self) {
        let begins =
            self.out.is_empty() || self.out.ends_with("\n\n") || self.out.ends_with(" do\n");
        if !begins {
            self.out.push('\n');
        }
    }

    fn text(&self, token: &Token) -> &'a str {
        token.span.text(self.source)
    }

    fn indent(&self, first: &Token, tokens: &[&Token]) -> usize {
        let is_closing = self.opens(None, first) == Some(false);
        let inner = self.open.last().map_or(0, |indent| indent + 1);
        if is_closing {
            return inner.saturating_sub(1);
        }
        let is_comment = tokens.iter().all(|token| token.kind == TokenKind::Comment);
        let goes_on = (self.continues && !is_comment && !self.is_in_list()) || first.is(".");
        inner + usize::from(goes_on)
    }

    /// In an open list, a comma at the end of a line does not indent the next line.
    fn is_in_list(&self) -> bool {
        let text = self.out.trim_end();
        text.ends_with(',') && self.open.len() > 1
    }

    /// Whether a token opens something (true) or closes it (false).
    fn opens(&self, before: Option<&Token>, token: &Token) -> Option<bool> {
        let is_name = before.is_some_and(|before| before.is(":") || before.is("."));
        match (&token.kind, self.text(token)) {
            (TokenKind::Word, "do") if !is_name => Some(true),
            (TokenKind::Word, "end") if !is_name => Some(false),
            (TokenKind::Punctuation("(" | "[" | "{"), _) => Some(true),
            (TokenKind::Punctuation(")" | "]" | "}"), _) => Some(false),
            _ => None,
        }
    }

    fn goes_on(&self, last: &Token) -> bool {
        match (&last.kind, self.text(last)) {
            (TokenKind::Merge(_), _) => true,
            (TokenKind::Word, word) => OPERATORS.contains(&word),
            (TokenKind::Punctuation(")" | "]" | "}" | "(" | "[" | "{" | "|" | "?"), _) => false,
            (TokenKind::Punctuation(_), _) => true,
            _ => false,
        }
    }

    /// Whether a token is the bar before (true) or after (false) a block's variables.
    fn pipe(&self, before: Option<&Token>, token: &Token, inside: &mut bool) -> Option<bool> {
        if !token.is("|") {
            return None;
        }
        let opens = before.is_some_and(|before| before.is("{") || self.text(before) == "do");
        *inside = opens && !*inside;
        Some(*inside)
    }

    /// Whether a blank stands between the tokens of a line so far and the next.
    fn has_blank(&self, so_far: &[&Token], next: &Token, pipe: Option<bool>) -> bool {
        let [.., last] = so_far else { return false };
        let word = |token: &Token| token.kind == TokenKind::Word;
        let of = |at: usize| so_far.len().checked_sub(at).and_then(|at| so_far.get(at));
        let before_last = of(2).copied();
        let is_first_bar = last.is("|")
            && before_last.is_some_and(|before| before.is("{") || self.text(before) == "do");
        let no_blank_after = ["(", "[", "{", ".", ":", "!"].iter().any(|text| last.is(text))
            || is_first_bar
            || self.is_sign(last, before_last);
        let no_blank_before = [")", "]", "}", ",", ".", "?", "{"].iter().any(|text| next.is(text))
            || pipe == Some(false);
        let is_type =
            next.is(":") && word(last) && before_last.is_some_and(|before| before.is(":"));
        let is_call =
            next.is("(") && (last.is("?") || (word(last) && !OPERATORS.contains(&self.text(last))));
        !(no_blank_after || no_blank_before || is_type || is_call)
    }

    /// Whether a minus belongs to what follows it.
    fn is_sign(&self, minus: &Token, before: Option<&Token>) -> bool {
        minus.is("-")
            && before.is_none_or(|before| match (&before.kind, self.text(before)) {
                (TokenKind::Word, word) => OPERATORS.contains(&word),
                (TokenKind::Integer(_) | TokenKind::Text(_), _) => false,
                (TokenKind::Punctuation(")" | "]" | "?"), _) => false,
                _ => true,
            })
    }
}
