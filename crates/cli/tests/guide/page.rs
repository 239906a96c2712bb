//! Parses the parts of a Markdown page that the tests of the guide need: the fenced blocks, and the
//! text around them.

use std::path::{Path, PathBuf};

/// A page of the repository.
#[derive(Debug)]
pub struct Page {
    /// Where it is, from the repository's folder on.
    pub path: PathBuf,
    /// Its fenced blocks, in order.
    pub blocks: Vec<Block>,
    /// Its lines outside of blocks.
    pub prose: Vec<String>,
}

/// A fenced block: what stands between two lines of three backticks.
#[derive(Debug)]
pub struct Block {
    /// The line of the page on which its content begins.
    pub line: usize,
    /// The words after the backticks: the language and more.
    pub words: Vec<String>,
    /// The paragraph directly before it, on one line.
    pub before: String,
    /// Its content, with a newline at the end of each line.
    pub text: String,
}

impl Page {
    /// Reads a page of the repository.
    pub fn read(repository: &Path, path: &Path) -> Self {
        let text = std::fs::read_to_string(repository.join(path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(path, &text)
    }

    /// The page with this text.
    pub fn parse(path: &Path, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), blocks: Vec::new(), prose: Vec::new() };
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let Some(words) = line.trim_start().strip_prefix("```") else {
                page.prose.push(line.to_owned());
                continue;
            };
            let end = |(line, _): &(&str, usize)| line.trim_start() != "```";
            let content = lines.by_ref().take_while(end).map(|(line, _)| format!("{line}\n"));
            page.blocks.push(Block {
                line: number + 1,
                words: words.split_whitespace().map(str::to_owned).collect(),
                text: content.collect(),
                before: page.last_paragraph(),
            });
            page.prose.push(String::new());
        }
        page
    }

    /// The paragraph that ends where the prose ends now.
    fn last_paragraph(&self) -> String {
        let written = self.prose.iter().rev().skip_while(|line| line.is_empty());
        let mut lines: Vec<_> = written.take_while(|line| !line.is_empty()).cloned().collect();
        lines.reverse();
        lines.join(" ")
    }
}
