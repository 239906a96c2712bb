//! Checking a program before anything of it is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use nacre_class::{CheckError, LUA_CLASS, check_program, check_suspicions};
use nacre_clock::Clock;
use nacre_object::{Error, FaultSite};
use nacre_script::{CompileError, MAX_SOURCE_BYTES};

use super::handle::programs_map;
use super::{ProgramId, ProgramKind};
use crate::events::EVENTS_CLASS;
use crate::maps::{MAP_CLASS, PolicyError, check_policy};

/// Class names that no program can take: every node has these.
const NATIVE_CLASSES: [&str; 5] = [LUA_CLASS, MAP_CLASS, EVENTS_CLASS, "log_native", "channels"];

/// What is wrong with a source, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The line, 1-based, where known.
    pub line: Option<u32>,
    /// The column in characters, 1-based, where certain.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
}

impl SourceError {
    /// Something about the source as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { line: None, column: None, message: message.into() }
    }

    /// The line with a caret under the mistake, for a terminal; empty where the line is not known.
    pub fn excerpt(&self, source: &str) -> String {
        let Some(line) = self.line else { return String::new() };
        let message = String::new();
        CompileError { line, column: self.column, message }.excerpt(source.as_bytes())
    }

    /// The public error: `Invalid`, with program and line as its fault site.
    pub fn into_error(self, program: &ProgramId) -> Error {
        let site =
            FaultSite { program: program.to_string(), line: self.line, ..FaultSite::default() };
        Error::invalid(self.message).with_fault(site)
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}")?;
            if let Some(column) = self.column {
                write!(f, ", column {column}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

impl From<CheckError> for SourceError {
    fn from(CheckError { line, column, message, .. }: CheckError) -> Self {
        Self { line, column, message }
    }
}

impl From<CompileError> for SourceError {
    fn from(error: CompileError) -> Self {
        Self { line: Some(error.line), column: error.column, message: error.message }
    }
}

/// What a dry run found.
impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        let line = error.fault().and_then(|site| site.line);
        Self { line, column: None, message: error.message().to_owned() }
    }
}

/// Compiles and dry-runs the programs of one kind.
pub trait Checker: Send + Sync {
    /// Whether the source could be made live.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError>;

    /// What is suspicious in a source that passes the check.
    fn suspicions(&self, _source: &str) -> Vec<SourceError> {
        vec![]
    }
}

/// The checkers of the kinds that have a hook: programs of other kinds are refused.
#[derive(Clone)]
pub(super) struct Checkers(BTreeMap<ProgramKind, Arc<dyn Checker>>);

impl Checkers {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let class: Arc<dyn Checker> = Arc::new(ClassChecker { clock });
        Self(BTreeMap::from([
            (ProgramKind::Class, class),
            (ProgramKind::Map, Arc::new(MapChecker)),
        ]))
    }

    pub(super) fn set(&mut self, kind: ProgramKind, checker: Arc<dyn Checker>) {
        self.0.insert(kind, checker);
    }

    /// The checker of a kind.
    ///
    /// # Errors
    /// `Unsupported` if nothing would run programs of this kind.
    pub(super) fn of(&self, kind: ProgramKind) -> Result<&Arc<dyn Checker>, Error> {
        self.0.get(&kind).ok_or_else(|| {
            let kinds: Vec<_> = self.0.keys().map(|kind| kind.as_str()).collect();
            Error::unsupported(format!("nothing here runs programs of kind {kind}"))
                .hint(format!("put a program of one of these kinds: {}", kinds.join(", ")))
        })
    }

    pub(super) fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        let checker = self.of(program.kind)?;
        if source.len() > MAX_SOURCE_BYTES {
            let bytes = source.len();
            let text = format!("a source of {bytes} bytes; at most {MAX_SOURCE_BYTES} fit");
            return Err(SourceError::new(text));
        }
        checker.check(program, source)
    }
}

struct ClassChecker {
    clock: Arc<dyn Clock>,
}

impl Checker for ClassChecker {
    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        if NATIVE_CLASSES.contains(&program.name.as_str()) {
            return Err(SourceError::new(format!("{} is a native class", program.name)));
        }
        check_program(source, &self.clock).map(|_| ()).map_err(SourceError::from)
    }

    fn suspicions(&self, source: &str) -> Vec<SourceError> {
        check_suspicions(source).into_iter().map(SourceError::from).collect()
    }
}

struct MapChecker;

impl Checker for MapChecker {
    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        if program.name.as_str() == programs_map().as_str() {
            // A program there that fails could not be rolled back.
            return Err(SourceError::new("the map of programs takes no program itself"));
        }
        check_policy(&program.to_string(), source).map_err(|error| match error {
            PolicyError::Compile(error) => error.into(),
            PolicyError::DryRun(error) => error.into(),
        })
    }
}
