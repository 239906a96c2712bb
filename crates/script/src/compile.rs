//! Compiles source to bytecode, and finds the position of a mistake in the source.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::chunk::Compiler;
use nacre_object::{Error, FaultSite};

use nacre_program::{Digest, MAX_SOURCE_BYTES, excerpt, line_of};

use crate::environment::is_in_environment;
use crate::limits::MAX_NAMED_SOURCE_BYTES;
use crate::names::{FreeName, free_names};

/// A compiled script, which a [`crate::Vm`] runs. Cheap to keep and to share between threads.
pub struct Script {
    id: u64,
    name: String,
    version: u64,
    digest: Digest,
    bytecode: Vec<u8>,
    /// The names that it uses without defining them, apart from those of the libraries.
    free_names: Vec<FreeName>,
    is_kept: bool,
}

impl Script {
    /// Compiles `source`. Errors of the script name it by `name` and `version`.
    ///
    /// # Errors
    /// The first syntax error, or that the source exceeds [`MAX_SOURCE_BYTES`].
    pub fn compile(name: &str, version: u64, source: &[u8]) -> Result<Self, CompileError> {
        if source.len() > MAX_SOURCE_BYTES {
            let length = source.len();
            let message = format!("the source has {length} bytes; at most {MAX_SOURCE_BYTES} fit");
            return Err(CompileError { line: 1, column: None, message });
        }
        let digest = Digest::of(source);
        let source = without_preamble(source);
        // Level 1 optimises only as far as line numbers and tracebacks stay correct. The compiler
        // must not resolve `_G` when the chunk is loaded, because the globals change while the
        // chunk stays loaded.
        let compiler = Compiler::new()
            .set_optimization_level(1)
            .set_debug_level(1)
            .set_mutable_globals(vec!["_G".to_owned()]);
        let bytecode =
            compiler.compile(source).map_err(|error| CompileError::new(&error, source))?;
        Ok(Self {
            id: next_id(),
            name: name.to_owned(),
            version,
            digest,
            bytecode,
            free_names: names_of(source),
            is_kept: false,
        })
    }

    /// Makes each VM run the chunk only once, instead of once for each run. Use it only for scripts
    /// that define nothing that changes later.
    pub fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    /// Whether a VM runs the chunk only once, see [`Script::kept`].
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program's version; 0 for a one-off script.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The digest of the source.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The identity of this compilation. No two compilations share it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn free_names(&self) -> &[FreeName] {
        &self.free_names
    }

    pub(crate) fn bytecode(&self) -> &[u8] {
        &self.bytecode
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({} version {}, {})", self.name, self.version, self.digest)
    }
}

/// Strips a byte order mark and, if the first line is for a shell (`#!…`), that line. Line numbers
/// stay the same.
fn without_preamble(source: &[u8]) -> &[u8] {
    let source = source.strip_prefix("\u{feff}".as_bytes()).unwrap_or(source);
    match source.starts_with(b"#!") {
        true => &source[memchr::memchr(b'\n', source).unwrap_or(source.len())..],
        false => source,
    }
}

/// The names that a source uses although neither the source nor the libraries define them. Sources
/// longer than the bound are not searched: programs generate them, and they use no missing name.
fn names_of(source: &[u8]) -> Vec<FreeName> {
    match std::str::from_utf8(source) {
        Ok(source) if source.len() <= MAX_NAMED_SOURCE_BYTES => free_names(source)
            .into_iter()
            .filter(|name| !is_in_environment(&name.global, name.field.as_deref()))
            .collect(),
        _ => vec![],
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The reason why a source does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// The line, 1-based.
    pub line: u32,
    /// The column of the offending token, 1-based and in characters, if it is certain.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
}

impl CompileError {
    fn new(error: &mlua::Error, source: &[u8]) -> Self {
        let text = match error {
            mlua::Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        };
        // The compiler writes `LINE: MESSAGE`.
        let (line, message) = match text.split_once(": ") {
            Some((line, rest)) => (line.trim_start_matches(':').parse(), rest),
            None => (Ok(1), text.as_str()),
        };
        let line = line.unwrap_or(1);
        let column = line_of(source, line).and_then(|text| column_of(message, &text));
        Self { line, column, message: message.to_owned() }
    }

    /// The source line with a caret under the mistake, for a terminal.
    pub fn excerpt(&self, source: &[u8]) -> String {
        excerpt(source, self.line, self.column)
    }

    /// This error as the fault of a program, with the status `-EIO` that `cls_lua` returns.
    pub fn into_fault(self, program: &str, version: u64) -> Error {
        let site = FaultSite {
            program: program.to_owned(),
            version,
            line: Some(self.line),
            traceback: String::new(),
        };
        Error::fault_at(site, self.message)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for CompileError {}

/// Finds the column of an error in a line. The compiler's message has no column, but quotes the
/// unexpected token. If the line has that token once, its column is the answer.
fn column_of(message: &str, line: &str) -> Option<u32> {
    let got = message.split_once(", got ").or_else(|| message.split_once("near "))?.1;
    if got.starts_with("<eof>") {
        return u32::try_from(line.chars().count() + 1).ok();
    }
    let token = got.strip_prefix('\'')?.split('\'').next()?;
    let (before, after) = line.split_once(token)?;
    let unique = !token.is_empty() && !after.contains(token);
    unique.then(|| before.chars().count() + 1).and_then(|column| u32::try_from(column).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(source: &str) -> CompileError {
        Script::compile("test", 1, source.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_mistake_has_its_line_and_where_certain_its_column() {
        let error = failure("x = 1\ny = do\n");
        assert_eq!((error.line, error.column), (2, Some(5)));
        assert_eq!(error.excerpt(b"x = 1\ny = do\n"), "    2 | y = do\n      |     ^\n");
        let error = failure("return (");
        assert_eq!((error.line, error.column), (1, Some(9)));
        let ambiguous = failure("x = = 3");
        assert_eq!((ambiguous.line, ambiguous.column), (1, None));
        assert_eq!(ambiguous.excerpt(b"x = = 3"), "    1 | x = = 3\n");
    }

    #[test]
    fn deep_or_long_sources_are_refused_not_fatal() {
        let deep = format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        let message = failure(&deep).message;
        assert!(message.contains("recursion depth"), "{message}");
        let chain = format!("return {}1", "1 .. ".repeat(50_000));
        assert!(Script::compile("test", 1, chain.as_bytes()).is_err());
        let long = " ".repeat(MAX_SOURCE_BYTES + 1);
        assert!(failure(&long).message.contains("at most"));
    }

    #[test]
    fn an_empty_source_and_any_bytes_in_strings_are_fine() {
        assert!(Script::compile("test", 1, b"").is_ok());
        assert!(Script::compile("test", 1, b"return '\xff\xfe'").is_ok());
    }
}
