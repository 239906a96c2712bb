//! Diagnostics: a mistake in a program, its position, and how to correct it.

use std::fmt::Write;

use crate::limits::{MAX_DIAGNOSTICS, MAX_FOUND, MAX_SHOWN_CHARACTERS};
use crate::span::{LineColumn, LineIndex, Span};

/// Whether a program with this mistake can be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program cannot be compiled.
    Error,
    /// The program compiles, but a rule probably does not mean what its author wanted, or costs
    /// more than it seems to.
    Warning,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One mistake or one warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the program can be compiled.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// What.
    pub message: String,
    /// Related positions.
    pub notes: Vec<Note>,
    /// What the author can do.
    pub help: Option<String>,
}

/// A position that is related to a mistake elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub span: Span,
    /// How.
    pub message: String,
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span, message: message.into(), notes: vec![], help: None }
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(span, message) }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    pub(crate) fn note(mut self, span: Span, message: impl Into<String>) -> Self {
        let note = Note { span, message: message.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        self
    }

    /// Where it begins.
    pub fn place(&self, source: &str) -> LineColumn {
        LineIndex::new(source).place(source, self.span.start)
    }

    /// The message with its help, on one line.
    pub fn summary(&self) -> String {
        match &self.help {
            Some(help) => format!("{}; {help}", self.message),
            None => self.message.clone(),
        }
    }

    /// The diagnostic in the form that compilers use: position and message, the line with carets,
    /// notes, help.
    pub fn render(&self, file: &str, source: &str) -> String {
        let lines = LineIndex::new(source);
        let mut text = String::new();
        let head = format!("{}: {}", self.severity.as_str(), self.message);
        excerpt(&mut text, file, source, &lines, self.span, &head);
        for note in &self.notes {
            let head = format!("note: {}", note.message);
            excerpt(&mut text, file, source, &lines, note.span, &head);
        }
        if let Some(help) = &self.help {
            let _ = writeln!(text, "  help: {help}");
        }
        text
    }
}

/// `file:line:column: head` and the line with carets under the span.
fn excerpt(text: &mut String, file: &str, source: &str, lines: &LineIndex, span: Span, head: &str) {
    let LineColumn { line, column } = lines.place(source, span.start);
    let whole = source.lines().nth(line as usize - 1).unwrap_or_default();
    let (shown, before) = window(whole, column as usize - 1);
    // Tabs stay tabs, so that the carets stand under their characters whatever their width.
    let lead: String =
        shown.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
    let rest = shown.chars().count().saturating_sub(before).max(1);
    let carets = span.text(source).lines().next().map_or(1, |part| part.chars().count());
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let _ = writeln!(text, "{file}:{line}:{column}: {head}");
    let _ = writeln!(text, "{number} | {shown}");
    let _ = writeln!(text, "{gutter} | {lead}{}", "^".repeat(carets.clamp(1, rest)));
}

/// Cuts out a part of a long line that contains the character `at`. Returns this part and the
/// position of the character in it.
fn window(line: &str, at: usize) -> (String, usize) {
    let count = line.chars().count();
    if count <= MAX_SHOWN_CHARACTERS {
        return (line.to_owned(), at);
    }
    let first = at.saturating_sub(MAX_SHOWN_CHARACTERS / 2);
    let shown: String = line.chars().skip(first).take(MAX_SHOWN_CHARACTERS).collect();
    let head = if first > 0 { "…" } else { "" };
    let tail = if first + MAX_SHOWN_CHARACTERS < count { "…" } else { "" };
    (format!("{head}{shown}{tail}"), at - first + head.chars().count())
}

/// The diagnostics that a pass has found so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The positions of all mistakes and warnings.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.0.iter().map(|one| one.span)
    }

    pub fn add(&mut self, diagnostic: Diagnostic) {
        let like = self.0.iter().filter(|one| one.severity == diagnostic.severity).count();
        if like < MAX_FOUND && !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }

    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Sorts the diagnostics by place and keeps a bounded number. Warnings are dropped before
    /// errors.
    pub fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.0.sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.span.start));
        self.0.truncate(MAX_DIAGNOSTICS);
        self.0.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.severity));
        self.0
    }
}

/// A help that suggests the name among `known` that `wrong` was probably meant to be.
pub(crate) fn suggestion<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let near = known.into_iter().map(|name| (distance(wrong, name), name));
    let (distance, name) = near.min_by_key(|(distance, _)| *distance)?;
    let close_enough = distance <= 1.max(wrong.chars().count() / 3);
    close_enough.then(|| format!("did you mean `{name}`?"))
}

/// Names in a sentence: `a`, `b` and `c`.
pub(crate) fn listing<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A number with a noun, for messages: `1 row`, `2 rows`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How many characters must be added, dropped, changed or swapped with their neighbour to turn one
/// name into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = vec![];
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut next = vec![i];
        for j in 1..=to.len() {
            let change = row[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut cost = change.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                cost = cost.min(before[j - 2] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}
