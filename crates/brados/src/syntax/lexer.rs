//! Divides a source into tokens. Unknown characters are reported and left out.

use super::token::{MergeOp, Token, TokenKind};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::limits::MAX_INTEGER;
use crate::span::Span;

/// Longer ones first: the first that fits is taken.
const MERGES: [(&str, MergeOp); 6] = [
    ("<+-", MergeOp::Replace),
    ("<+>", MergeOp::Replace),
    ("<+", MergeOp::Insert),
    ("<-", MergeOp::Delete),
    ("<~", MergeOp::Send),
    ("<=", MergeOp::Now),
];
const PUNCTUATION: [&str; 25] = [
    "=>", "==", "!=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]",
    "{", "}", "|", ",", ".", ":", "?",
];

/// The tokens of a source, comments included, ending in [`TokenKind::End`].
pub(crate) fn tokens(source: &str, diagnostics: &mut Diagnostics) -> Vec<Token> {
    let mut lexer = Lexer { source, at: 0, tokens: vec![], diagnostics };
    while lexer.at < source.len() {
        lexer.next();
    }
    lexer.push(source.len(), TokenKind::End);
    lexer.tokens
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    tokens: Vec<Token>,
    diagnostics: &'a mut Diagnostics,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    /// Ends a token, which began here, at `end`.
    fn push(&mut self, end: usize, kind: TokenKind) {
        self.tokens.push(Token { kind, span: Span::new(self.at, end) });
        self.at = end;
    }

    fn next(&mut self) {
        let Some(first) = self.rest().chars().next() else { return };
        match first {
            '\n' => self.push(self.at + 1, TokenKind::Newline),
            ' ' | '\t' | '\r' => self.at += 1,
            '#' => {
                let length = self.rest().find('\n').unwrap_or(self.rest().len());
                let text = self.rest()[..length].trim_end().len();
                self.push(self.at + text, TokenKind::Comment);
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = self.end_of(|c| c.is_ascii_alphanumeric() || c == '_');
                self.push(end, TokenKind::Word);
            }
            '0'..='9' => self.integer(),
            '\'' | '"' => self.text(first),
            other => self.punctuation(other),
        }
    }

    fn end_of(&self, belongs: impl Fn(char) -> bool) -> usize {
        let length = self.rest().find(|c| !belongs(c)).unwrap_or(self.rest().len());
        self.at + length
    }

    fn integer(&mut self) {
        let mut end = self.end_of(|c| c.is_ascii_alphanumeric() || c == '_');
        let fraction = &self.source[end..];
        let is_fraction = |text: &&str| text.starts_with(|c: char| c.is_ascii_digit());
        if let Some(digits) = fraction.strip_prefix('.').filter(is_fraction) {
            let length = digits.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(digits.len());
            end += 1 + length;
            let message = format!("{} is no whole number", &self.source[self.at..end]);
            let error = Diagnostic::error(Span::new(self.at, end), message);
            self.diagnostics.add(error.help("numbers are whole: count in a smaller unit"));
            return self.push(end, TokenKind::Integer(0));
        }
        let text = self.source[self.at..end].replace('_', "");
        let span = Span::new(self.at, end);
        let value = match text.parse::<i64>() {
            Ok(value) if value <= MAX_INTEGER => value,
            Ok(_) | Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                let message = format!("{text} is too large a number");
                let help = format!("numbers are exact below 2^53, up to {MAX_INTEGER}");
                self.diagnostics.add(Diagnostic::error(span, message).help(help));
                0
            }
            _ => {
                let message = format!("`{text}` is neither a number nor a name");
                let help = "numbers are decimal; names begin with a letter";
                self.diagnostics.add(Diagnostic::error(span, message).help(help));
                0
            }
        };
        self.push(end, TokenKind::Integer(value));
    }

    fn text(&mut self, quote: char) {
        let mut bytes = Vec::new();
        let mut characters = self.rest().char_indices().skip(1).peekable();
        let mut wrong = vec![];
        let end = loop {
            match characters.next() {
                None | Some((_, '\n')) => break None,
                Some((at, c)) if c == quote => break Some(self.at + at + 1),
                Some((at, '\\')) => {
                    let escape = characters.next().map_or('\n', |(_, c)| c);
                    let mut hex = || characters.next_if(|(_, c)| c.is_ascii_hexdigit());
                    let digits = if escape == 'x' { hex().zip(hex()) } else { None };
                    match unescaped(escape, digits.map(|((_, high), (_, low))| [high, low])) {
                        Some(byte) => bytes.push(byte),
                        None if escape == '\n' => break None,
                        None => wrong.push(Span::new(self.at + at, self.at + at + 2)),
                    }
                }
                Some((_, c)) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        };
        for span in wrong {
            let error = Diagnostic::error(span, "there is no such escape");
            self.diagnostics.add(error.help("there are \\n, \\t, \\0, \\\\, \\', \\\" and \\xNN"));
        }
        let end = end.unwrap_or_else(|| {
            let line = self.at + self.rest().find('\n').unwrap_or(self.rest().len());
            let span = Span::new(self.at, line);
            let error = Diagnostic::error(span, "this text is not closed");
            self.diagnostics.add(error.help(format!("end it with {quote} on the same line")));
            line
        });
        self.push(end, TokenKind::Text(bytes));
    }

    fn punctuation(&mut self, first: char) {
        for (text, op) in MERGES {
            if self.rest().starts_with(text) {
                return self.push(self.at + text.len(), TokenKind::Merge(op));
            }
        }
        for text in PUNCTUATION {
            if self.rest().starts_with(text) {
                return self.push(self.at + text.len(), TokenKind::Punctuation(text));
            }
        }
        let end = self.at + first.len_utf8();
        let message = format!("{first:?} means nothing here");
        let error = Diagnostic::error(Span::new(self.at, end), message);
        let help = match first {
            ';' => Some("a rule ends with its line".to_owned()),
            '=' => Some("rules merge with <=, <+, <-, <+- or <~; == compares".to_owned()),
            '&' => Some("write `&&` or `and`".to_owned()),
            _ => None,
        };
        self.diagnostics.add(error.maybe_help(help));
        self.at = end;
    }
}

/// The byte an escape stands for.
fn unescaped(escape: char, hex: Option<[char; 2]>) -> Option<u8> {
    Some(match escape {
        'n' => b'\n',
        't' => b'\t',
        '0' => 0,
        '\\' | '\'' | '"' => escape as u8,
        'x' => {
            let [high, low] = hex?.map(|digit| digit.to_digit(16).unwrap_or(0));
            (high * 16 + low) as u8
        }
        _ => return None,
    })
}
