//! Writes lines of Lua, and notes for each the line of the program from which it was generated.

use std::fmt::Display;

/// The line of the program for each line of its class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineMap(Vec<u32>);

impl LineMap {
    /// The line of the program from which a line of the class was generated, both counted from 1.
    /// `None` for lines that every class has.
    pub fn line(&self, class_line: u32) -> Option<u32> {
        let at = usize::try_from(class_line.checked_sub(1)?).ok()?;
        self.0.get(at).copied().filter(|line| *line > 0)
    }
}

/// Lua code that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    lines: Vec<u32>,
    indent: usize,
    /// The line of the program whose Lua is being written; 0 if there is none.
    pub line: u32,
}

/// The open blocks of Lua, outermost first. For each, the line that closes it.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<String>);

impl Blocks {
    /// Opens a block that `end` closes.
    pub fn open(&mut self, out: &mut Writer, line: impl Display) {
        self.open_until(out, line, "end");
    }

    /// Opens a block that another line closes.
    pub fn open_until(&mut self, out: &mut Writer, line: impl Display, end: impl Into<String>) {
        out.open(line);
        self.0.push(end.into());
    }

    /// Closes all.
    pub fn close(self, out: &mut Writer) {
        self.0.iter().rev().for_each(|end| out.close(end));
    }
}

/// A position between two lines.
pub(super) struct Position {
    text: usize,
    line: usize,
    indent: usize,
}

impl Writer {
    /// Adds a line.
    pub fn put(&mut self, line: impl Display) {
        let line = line.to_string();
        debug_assert!(!line.contains('\n'), "one line at a time");
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("  ", self.indent));
        }
        self.text.push_str(&line);
        self.text.push('\n');
        self.lines.push(self.line);
    }

    /// Adds a line that opens a block. Later lines are indented one level more.
    pub fn open(&mut self, line: impl Display) {
        self.put(line);
        self.indent += 1;
    }

    /// Adds a line that ends a block.
    pub fn close(&mut self, line: impl Display) {
        self.indent -= 1;
        self.put(line);
    }

    /// Adds a line that ends a block and opens another one, such as `else`.
    pub fn turn(&mut self, line: impl Display) {
        self.close(line);
        self.indent += 1;
    }

    /// The position of the next line.
    pub fn mark(&self) -> Position {
        Position { text: self.text.len(), line: self.lines.len(), indent: self.indent }
    }

    /// Adds a line at a mark. Later marks move.
    pub fn insert(&mut self, mark: &Position, line: impl Display) {
        let line = format!("{}{line}\n", "  ".repeat(mark.indent));
        self.text.insert_str(mark.text, &line);
        self.lines.insert(mark.line, self.line);
    }

    /// The code that was added since a mark.
    pub fn since(&self, mark: &Position) -> &str {
        &self.text[mark.text..]
    }

    /// Whether the lines added since a mark contain a word.
    pub fn mentions(&self, mark: &Position, word: &str) -> bool {
        let text = self.since(mark);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.match_indices(word).any(|(at, _)| {
            !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word)
        })
    }

    /// Adds the lines of another writer.
    pub fn append(&mut self, other: Writer) {
        self.text.push_str(&other.text);
        self.lines.extend(other.lines);
    }

    /// Adds code that comes from no line of the program.
    pub fn put_text(&mut self, text: &str) {
        let line = std::mem::take(&mut self.line);
        text.lines().for_each(|line| self.put(line));
        self.line = line;
    }

    pub fn finish(self) -> (String, LineMap) {
        (self.text, LineMap(self.lines))
    }
}
