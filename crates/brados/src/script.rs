//! Parses and runs test scripts of programs. A script is a list of requests, each with its expected
//! result.
//!
//! ```text
//! # a comment
//! == a case, which begins with an object that does not exist
//! put 'key', 7 -> ret('ok')
//! get 'key'    -> value(7) ret('ok')
//! get 'other'  -> nothing
//! put 'key', 8 -> conflict
//! ```
//!
//! A request is a method and its row. After the arrow come the expected rows of all outputs in any
//! order, or `nothing`, or the kind of the expected error. Requests go to an object called
//! `object`; `@name` before a request sends it to the object `name` instead. The line `delivered`
//! waits until all messages sent so far, and all messages that these cause, are delivered.

use std::collections::BTreeSet;
use std::fmt;

use crate::diagnostic::{Diagnostics, listing};
use crate::syntax::lexer::tokens;
use crate::syntax::token::{Token, TokenKind};
use nacre_calls::OutputRows;
use nacre_calls::Value;

/// A parsed script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// Its cases.
    pub cases: Vec<Case>,
}

/// Requests on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The name of the case.
    pub name: String,
    /// Its requests, in order.
    pub steps: Vec<Step>,
}

/// The object of requests that name no other.
pub const OWN_OBJECT: &str = "object";
/// The line that waits for deliveries.
const DELIVERED: &str = "delivered";
/// The separator between a request and its expected result.
const ARROW: &str = " -> ";
const NO_REQUESTS: &str = "nothing is asked: `== name`, then a request a line";
/// The kinds of errors, as `nacre_object::ErrorKind` calls them.
const KINDS: [&str; 11] = [
    "not found",
    "exists",
    "invalid",
    "stale",
    "conflict",
    "denied",
    "exhausted",
    "unavailable",
    "unsupported",
    "corrupt",
    "fault",
];

/// A request, or the delivery of all messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its line, from 1.
    pub line: u32,
    /// As it is written.
    pub text: String,
    /// The object.
    pub object: String,
    /// The method. Empty for the line `delivered`.
    pub method: String,
    /// The row.
    pub row: Vec<Value>,
    /// The expected result.
    pub expected: Expected,
}

/// The expected result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// A reply of these rows.
    Reply(Vec<OutputRows>),
    /// An error of this kind.
    Failure(String),
}

impl Expected {
    /// Whether a result is the expected one. The rows of an output are compared as a set, so their
    /// order does not matter.
    pub fn is_met_by(&self, got: &Self) -> bool {
        match (self, got) {
            (Self::Reply(expected), Self::Reply(got)) => row_set(expected) == row_set(got),
            (expected, got) => expected == got,
        }
    }
}

/// The rows of a reply, whatever their order.
fn row_set(reply: &[OutputRows]) -> BTreeSet<(&str, &[Value])> {
    let mut set = BTreeSet::new();
    for (output, rows) in reply {
        set.extend(rows.iter().map(|row| (output.as_str(), row.as_slice())));
    }
    set
}

/// A line that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Parses a script.
    ///
    /// # Errors The first malformed line.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        let mut last_line = 1;
        let is_empty = |case: &Case| case.steps.is_empty();
        let no_requests = |line| ScriptError { line, message: NO_REQUESTS.to_owned() };
        for (at, line) in text.lines().enumerate() {
            let number = at as u32 + 1;
            let error = |message: String| ScriptError { line: number, message };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix("==") {
                if script.cases.last().is_some_and(is_empty) {
                    return Err(no_requests(last_line));
                }
                last_line = number;
                script.cases.push(Case { name: name.trim().to_owned(), steps: vec![] });
                continue;
            }
            let step = Step::parse(line, number).map_err(error)?;
            let Some(case) = script.cases.last_mut() else {
                return Err(error("a request belongs to a case: `== name` before it".to_owned()));
            };
            case.steps.push(step);
        }
        // A script without requests would pass for any program.
        match script.cases.last() {
            Some(case) if !is_empty(case) => Ok(script),
            _ => Err(no_requests(last_line)),
        }
    }
}

impl Step {
    /// Whether it waits for deliveries.
    pub fn is_delivery(&self) -> bool {
        self.method.is_empty()
    }

    fn delivered(line: u32) -> Self {
        let (object, method) = (OWN_OBJECT.to_owned(), String::new());
        let expected = Expected::Reply(vec![]);
        Self { line, text: DELIVERED.to_owned(), object, method, row: vec![], expected }
    }

    fn parse(text: &str, line: u32) -> Result<Self, String> {
        if text == DELIVERED {
            return Ok(Self::delivered(line));
        }
        let (object, rest) = match text.strip_prefix('@') {
            Some(named) => named.split_once(' ').ok_or("after `@name` comes a request")?,
            None => (OWN_OBJECT, text),
        };
        let (request, expected) = divided(rest)
            .ok_or("a request says what is to come of it: `method values -> output(values)`")?;
        let mut request = Values::new(request)?;
        let method = request.word().ok_or("a request begins with its method")?;
        let row = if request.is_over() { vec![] } else { request.list()? };
        if !request.is_over() {
            return Err("values are separated by commas".to_owned());
        }
        let expected = Expected::parse(expected.trim())?;
        let (text, object) = (text.to_owned(), object.to_owned());
        Ok(Self { line, text, object, method, row, expected })
    }
}

/// Splits a line into the request and the expected result, at the first arrow outside of strings.
fn divided(text: &str) -> Option<(&str, &str)> {
    let at = |(at, arrow): (usize, &str)| (&text[..at], &text[at + arrow.len()..]);
    let mut all = text.match_indices(ARROW).map(at);
    let first = all.clone().next();
    all.find(|(request, _)| Values::new(request).is_ok()).or(first)
}

impl Expected {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "nothing" {
            return Ok(Self::Reply(vec![]));
        }
        if KINDS.contains(&text) {
            return Ok(Self::Failure(text.to_owned()));
        } else if !text.contains('(') {
            return Err(format!("no `{text}`: write rows, `nothing` or one of {}", listing(KINDS)));
        }
        let mut values = Values::new(text)?;
        let mut outputs: Vec<OutputRows> = vec![];
        while !values.is_over() {
            let name = values.word().ok_or("an output is its name and a row: `ret(1, 'a')`")?;
            values.expect("(")?;
            let row = if values.eat(")") { vec![] } else { values.list_until(")")? };
            match outputs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, rows)) => rows.push(row),
                None => outputs.push((name, vec![row])),
            }
        }
        Ok(Self::Reply(outputs))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(outputs) => f.write_str(&shown_reply(outputs)),
            Self::Failure(kind) => f.write_str(kind),
        }
    }
}

/// A reply as scripts write it.
pub fn shown_reply(outputs: &[OutputRows]) -> String {
    let rows = outputs.iter().flat_map(|(name, rows)| {
        rows.iter().map(move |row| {
            let values: Vec<_> = row.iter().map(Value::to_string).collect();
            format!("{name}({})", values.join(", "))
        })
    });
    let shown: Vec<_> = rows.collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") }
}

/// The tokens of a line.
struct Values<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'a> Values<'a> {
    fn new(text: &'a str) -> Result<Self, String> {
        let mut diagnostics = Diagnostics::default();
        let tokens = tokens(text, &mut diagnostics);
        match diagnostics.into_sorted().first() {
            Some(diagnostic) => Err(diagnostic.summary()),
            None => Ok(Self { text, tokens, at: 0 }),
        }
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn is_over(&self) -> bool {
        self.peek().kind == TokenKind::End
    }

    fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.peek().is(punctuation);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, punctuation: &str) -> Result<(), String> {
        let shown = self.peek().span.text(self.text).to_owned();
        if self.eat(punctuation) {
            Ok(())
        } else {
            Err(format!("expected `{punctuation}`, found `{shown}`"))
        }
    }

    fn word(&mut self) -> Option<String> {
        let token = self.peek();
        let word =
            (token.kind == TokenKind::Word).then(|| token.span.text(self.text).to_owned())?;
        self.at += 1;
        Some(word)
    }

    fn list(&mut self) -> Result<Vec<Value>, String> {
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        Ok(values)
    }

    fn list_until(&mut self, closing: &str) -> Result<Vec<Value>, String> {
        let values = self.list()?;
        self.expect(closing)?;
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, String> {
        let is_negative = self.eat("-");
        let token = self.peek();
        let shown = token.span.text(self.text);
        let value = match (&token.kind, shown) {
            (TokenKind::Integer(number), _) if is_negative => Value::Int(-number),
            (TokenKind::Integer(number), _) => Value::Int(*number),
            (TokenKind::Text(text), _) if !is_negative => Value::Bytes(text.clone()),
            (TokenKind::Word, "nil") => Value::Nil,
            (TokenKind::Word, "true") => Value::Bool(true),
            (TokenKind::Word, "false") => Value::Bool(false),
            _ => {
                return Err(format!(
                    "`{shown}` is no value; write a number, a quoted text, true, false or nil"
                ));
            }
        };
        self.at += 1;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Script::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_script_without_requests_is_refused() {
        for (text, line) in
            [("", 1), ("# nothing\n", 1), ("== a\n", 1), ("== a\nx -> nothing\n== b\n", 3)]
        {
            assert!(refused(text).starts_with(&format!("line {line}: nothing is asked")), "{text}");
        }
        assert!(refused("== a\n== b\nx -> nothing\n").starts_with("line 1: nothing is asked"));
        assert!(Script::parse("== a\ndelivered\n").is_ok());
    }

    #[test]
    fn an_arrow_inside_a_string_is_not_a_separator() {
        let script = Script::parse("== a\nput 'a -> b' -> ret('x -> y')\n").unwrap();
        let step = &script.cases[0].steps[0];
        assert_eq!(step.row, [Value::text("a -> b")]);
        assert_eq!(step.expected.to_string(), "ret('x -> y')");
        assert!(refused("== a\nput 'a -> nothing\n").contains("not closed"));
    }

    #[test]
    fn an_expected_error_must_have_a_known_kind() {
        assert_eq!(KINDS, nacre_object::ErrorKind::ALL.map(nacre_object::ErrorKind::as_str));
        let script = Script::parse("== a\nx -> not found\n").unwrap();
        let expected = Expected::Failure("not found".to_owned());
        assert_eq!(script.cases[0].steps[0].expected, expected);
        assert!(refused("== a\nx -> conflit\n").contains("no `conflit`"));
    }
}
