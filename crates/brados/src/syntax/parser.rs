//! The parser: a cursor over the tokens, and the reporting of mistakes.
//!
//! The end of a line ends a declaration or rule, unless a bracket or block is open or the line ends
//! in an operator or a comma. The cursor hides the line ends inside brackets and blocks, and skips
//! the line end after an operator or a comma. The parser reports a mistake once. Then it moves to
//! the next line that may begin a declaration or rule. An unknown character is reported by the
//! lexer; the parser does not report the mistakes that it causes.

use super::ast::Name;
use super::token::{KEYWORDS, Token, TokenKind};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::limits::{MAX_NAME_BYTES, MAX_NESTING};
use crate::span::Span;

/// The result of parsing a part of the grammar: the part, or that a mistake was reported.
pub(super) type Parsed<T> = Result<T, Reported>;

/// A mistake that was reported.
pub(super) struct Reported;

pub(super) struct Parser<'a> {
    pub source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Brackets and blocks that are open.
    open: usize,
    /// How deep the recursion is.
    depth: usize,
    /// The positions of unknown characters, in order.
    lexical: Vec<u32>,
    pub diagnostics: &'a mut Diagnostics,
}

impl<'a> Parser<'a> {
    pub fn new(source: &'a str, tokens: Vec<Token>, diagnostics: &'a mut Diagnostics) -> Self {
        let tokens = tokens.into_iter().filter(|token| token.kind != TokenKind::Comment).collect();
        let mut lexical: Vec<u32> = diagnostics.spans().map(|span| span.start).collect();
        lexical.sort_unstable();
        Self { source, tokens, at: 0, open: 0, depth: 0, lexical, diagnostics }
    }

    pub fn peek(&mut self) -> &Token {
        while self.open > 0 && self.tokens[self.at].kind == TokenKind::Newline {
            self.at += 1;
        }
        &self.tokens[self.at]
    }

    pub fn span(&mut self) -> Span {
        self.peek().span
    }

    /// The kind of the next token.
    pub fn next_kind(&self) -> Option<&TokenKind> {
        self.tokens.get(self.at + 1).map(|token| &token.kind)
    }

    /// The span of the token before this one.
    pub fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    pub fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    pub fn at_end(&mut self) -> bool {
        self.peek().kind == TokenKind::End
    }

    /// The word here, if one is.
    pub fn word(&mut self) -> Option<&'a str> {
        let source = self.source;
        let token = self.peek();
        (token.kind == TokenKind::Word).then(|| token.span.text(source))
    }

    pub fn is(&mut self, punctuation: &str) -> bool {
        self.peek().is(punctuation)
    }

    pub fn next_is_merge(&mut self) -> bool {
        self.peek();
        let next = self.tokens.get(self.at + 1);
        next.is_some_and(|token| matches!(token.kind, TokenKind::Merge(_)))
    }

    /// Takes this punctuation if it is here.
    pub fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.is(punctuation);
        if found {
            self.advance();
        }
        found
    }

    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.word() == Some(word);
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, punctuation: &str) -> Parsed<Span> {
        let span = self.span();
        if self.eat(punctuation) {
            Ok(span)
        } else {
            Err(self.unexpected(&format!("`{punctuation}`")))
        }
    }

    pub fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// A name that is no keyword.
    pub fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.word() {
            Some(word) if KEYWORDS.contains(&word) => {
                let message = format!("expected {what}, found the keyword `{word}`");
                let span = self.span();
                self.diagnostics.add(Diagnostic::error(span, message));
                Err(Reported)
            }
            Some(_) => Ok(self.any_name()),
            None => Err(self.unexpected(what)),
        }
    }

    /// A name in a position where keywords have no meaning, such as after a dot.
    pub fn column_name(&mut self) -> Parsed<Name> {
        match self.word() {
            Some(_) => Ok(self.any_name()),
            None => Err(self.unexpected("a column's name")),
        }
    }

    fn any_name(&mut self) -> Name {
        let span = self.advance().span;
        let name = Name { text: span.text(self.source).to_owned(), span };
        if name.text.len() > MAX_NAME_BYTES {
            let error = Diagnostic::error(span, "this name is too long");
            self.diagnostics.add(error.help(format!("a name has at most {MAX_NAME_BYTES} bytes")));
        }
        name
    }

    /// Runs `body` with line ends hidden.
    pub fn inside<T>(&mut self, body: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let was = self.open;
        self.open += 1;
        let result = body(self);
        self.open = was;
        result
    }

    /// Runs `body` one level deeper.
    pub fn deeper<T>(&mut self, body: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_NESTING {
            let error = Diagnostic::error(self.span(), "this is nested too deeply");
            let help = format!("at most {MAX_NESTING} levels; name parts of it with `temp`");
            self.diagnostics.add(error.help(help));
            return Err(Reported);
        }
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        result
    }

    pub fn skip_lines(&mut self) {
        while self.peek().kind == TokenKind::Newline {
            self.at += 1;
        }
    }

    pub fn skip_line(&mut self) {
        while !matches!(self.peek().kind, TokenKind::Newline | TokenKind::End) {
            self.at += 1;
        }
    }

    /// A line may continue with a dot on the next one.
    pub fn skip_lines_before_dot(&mut self) {
        let rest = &self.tokens[self.at..];
        let lines = rest.iter().take_while(|token| token.kind == TokenKind::Newline).count();
        if rest[lines..].first().is_some_and(|token| token.is(".")) {
            self.at += lines;
        }
    }

    pub fn expect_line_end(&mut self) {
        if !matches!(self.peek().kind, TokenKind::Newline | TokenKind::End) {
            let start = self.at;
            self.unexpected("the end of the line");
            self.recover(start);
        }
    }

    /// Continues after a mistake in the declaration or rule that began at token `start`: moves to
    /// the next line that may begin another declaration or rule.
    pub fn recover(&mut self, start: usize) {
        self.open = 0;
        self.depth = 0;
        // An open bracket hides line ends, so the mistake was possibly noticed only on the next
        // line.
        if self.at == start || !self.is_at_line_start() || !self.begins() {
            loop {
                self.skip_line();
                self.skip_lines();
                if self.at_end() || self.begins() {
                    return;
                }
            }
        }
    }

    fn is_at_line_start(&self) -> bool {
        self.at.checked_sub(1).is_none_or(|before| self.tokens[before].kind == TokenKind::Newline)
    }

    /// Whether the token at the present position may begin a declaration, a rule or a block, or end
    /// a block.
    fn begins(&mut self) -> bool {
        match self.word() {
            Some("end" | "temp" | "state" | "bloom" | "interface") => true,
            Some(_) => self.next_is_merge() || self.next_is(":"),
            None => false,
        }
    }

    /// Where the cursor is.
    pub fn position(&self) -> usize {
        self.at
    }

    fn next_is(&self, punctuation: &str) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|token| token.is(punctuation))
    }

    pub fn unexpected(&mut self, expected: &str) -> Reported {
        let span = self.span();
        let shown = self.shown();
        let help = self.way_on(expected, &shown);
        let message = format!("expected {expected}, found {shown}");
        self.report(Diagnostic::error(span, message).maybe_help(help.map(str::to_owned)))
    }

    /// Reports a mistake, unless it follows from an earlier mistake on the same line.
    pub fn report(&mut self, error: Diagnostic) -> Reported {
        let follows = |at: u32| {
            let line = self.source[..at as usize].rfind('\n').map_or(0, |newline| newline + 1);
            let from = self.lexical.partition_point(|start| (*start as usize) < line);
            self.lexical.get(from).is_some_and(|start| *start <= at)
        };
        // An open bracket may have taken the parser to a later line.
        if !follows(error.span.start) && !follows(self.last_span().start) {
            self.diagnostics.add(error);
        }
        Reported
    }

    /// A suggestion what to write instead, for common mistakes.
    fn way_on(&self, expected: &str, found: &str) -> Option<&'static str> {
        let after_word = matches!(self.tokens[self.at.saturating_sub(1)].kind, TokenKind::Word);
        Some(match (expected, found) {
            ("`|`", _) => "a block begins with its variables: `{|x| …}`",
            ("an expression", "`if`" | "`unless`") => "the row comes first: `{|x| [x.…] if …}`",
            ("an expression", "`}`") => "a block is a row, `[x.…]`, or a condition",
            (_, "`else`") => "there is no `else`: write a second rule, with `unless`",
            (_, "`if`" | "`unless`") => "one `if` or `unless` a block: join conditions with `and`",
            ("`}`" | "`)`" | "`,` or `]`", "`|`") => "write `||` or `or`",
            ("`}`" | "`)`" | "`,` or `]`", "`(`") if after_word => {
                "blocks have no functions; aggregates are computed by `group`"
            }
            ("`,` or `]`", "`?`") => "`?` comes after a type: `:column:string?`",
            ("`:`" | "a schema", _) => "names that are declared have a colon: `table :t, [:a, :b]`",
            ("a declaration or `end`", _) => {
                "a declaration begins with its kind: `table :name, [:column, …]`"
            }
            ("`,` or `)`", "`==`") => "columns are paired with an arrow: `:left => :right`",
            _ => return None,
        })
    }

    /// The token here in a message.
    pub fn shown(&mut self) -> String {
        match self.peek().kind {
            TokenKind::Newline => "the end of the line".to_owned(),
            TokenKind::End => "the end of the program".to_owned(),
            _ => format!("`{}`", self.span().text(self.source)),
        }
    }
}
