//! Checks a program before it is stored: compiles it, and runs its chunk without an object to find
//! which methods it registers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mlua::Table;
use nacre_brados::is_brados;
use nacre_clock::Clock;
use nacre_object::{CallContext, EntityName, Error, MethodName, Result};
use nacre_program::{Budget, Digest};
use nacre_script::{CompileError, Script, Terms, foreign_constructs};

use crate::calling::Calling;
use crate::class_vm::with_vm;
use crate::fault_sink::NoFaultSink;
use crate::interface::CLASS_INTERFACE;
use crate::language::translate;
use crate::requests::{Input, Requests};
use nacre_object::MethodAccess;

/// A program that compiles and registers methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedClass {
    /// SHA-256 of the source.
    pub digest: Digest,
    /// Its methods, in name order.
    pub methods: Vec<(MethodName, MethodAccess)>,
}

/// A mistake in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckError {
    /// The line, 1-based, where known.
    pub line: Option<u32>,
    /// The column, 1-based and in characters, where known.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// The source line with a caret under the mistake, for a terminal. Empty if the line is not
    /// known.
    pub excerpt: String,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}")?;
            if let Some(column) = self.column {
                write!(f, ", column {column}")?;
            }
            write!(f, ": ")?;
        }
        f.write_str(&self.message)?;
        if !self.excerpt.is_empty() {
            write!(f, "\n{}", self.excerpt.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for CheckError {}

impl From<CheckError> for Error {
    fn from(error: CheckError) -> Self {
        Error::invalid(error.to_string())
    }
}

impl CheckError {
    fn at(line: Option<u32>, message: String, source: &str) -> Self {
        let excerpt = line
            .map_or_else(String::new, |line| nacre_program::excerpt(source.as_bytes(), line, None));
        Self { line, column: None, message, excerpt }
    }

    fn of_syntax(mut error: CompileError, source: &str) -> Self {
        let constructs = foreign_constructs(source);
        if let Some(foreign) = constructs.iter().find(|foreign| foreign.line == error.line) {
            (error.column, error.message) = (Some(foreign.column), foreign.advice.to_owned());
        }
        let excerpt = error.excerpt(source.as_bytes());
        Self { line: Some(error.line), column: error.column, message: error.message, excerpt }
    }
}

/// Checks a class program, in bounded time as measured by `clock`.
///
/// # Errors
/// If the source does not compile, if its chunk fails, or if it registers no method that a call can
/// name.
pub fn check_program(source: &str, clock: &Arc<dyn Clock>) -> Result<CheckedClass, CheckError> {
    let translated = translate(source)?;
    let script =
        translated.script("program", 0).map_err(|error| CheckError::of_syntax(error, source))?;
    let methods = methods_of(&script, clock).map_err(|error| {
        let line = error.fault().and_then(|site| site.line);
        let hint = error.hint_text().map_or_else(String::new, |hint| format!("; {hint}"));
        CheckError::at(line, error.message().to_owned() + &hint, source)
    })?;
    let digest = Digest::of(source.as_bytes());
    Ok(CheckedClass { digest, methods: methods.into_iter().collect() })
}

/// Finds suspicious code in a program that [`check_program`] accepts: names that the environment of
/// classes lacks, and constructs that mean something else in Lua 5.3. These are no errors:
/// perhaps the program uses an unknown name just to test whether it exists.
pub fn check_suspicions(source: &str) -> Vec<CheckError> {
    if is_brados(source) {
        return vec![];
    }
    let Ok(script) = Script::compile("program", 0, source.as_bytes()) else { return vec![] };
    let at = |line, column, message: String| {
        CheckError::of_syntax(CompileError { line, column: Some(column), message }, source)
    };
    let missing = script.names_missing_in(&CLASS_INTERFACE).into_iter().map(|name| {
        let text = format!("`{}` is not available in classes, and not defined here", name.path());
        at(name.line, name.column, text)
    });
    let foreign = foreign_constructs(source).into_iter();
    let foreign =
        foreign.map(|foreign| at(foreign.line, foreign.column, foreign.advice.to_owned()));
    missing.chain(foreign).collect()
}

/// Runs the chunk without an object. Returns the methods that it registers.
pub(crate) fn methods_of(
    script: &Script,
    clock: &Arc<dyn Clock>,
) -> Result<BTreeMap<MethodName, MethodAccess>> {
    let budget = Budget::default();
    let context = CallContext { source: EntityName::new("check")?, now_micros: 0 };
    let access = Cell::new(MethodAccess::ReadOnly);
    let calling = Calling {
        object: None,
        requests: &Requests::of(Input::One(Bytes::new())),
        context: &context,
        access: &access,
        has_written: &Cell::new(false),
        script,
        sink: &NoFaultSink,
    };
    calling.during(|| {
        with_vm(|vm| {
            let run = vm.vm.start(script, &Terms { budget: &budget, clock, seed: 0 })?;
            let arguments = (run.chunk(), run.globals());
            let (named, count): (Table, usize) =
                run.call_for(&vm.library.dispatch.inspect, arguments)?;
            methods_in(&named, count)
        })
    })
}

fn methods_in(named: &Table, registered: usize) -> Result<BTreeMap<MethodName, MethodAccess>> {
    let mut methods = BTreeMap::new();
    for pair in named.pairs::<String, bool>() {
        let (name, read_only) =
            pair.map_err(|_| Error::invalid("the name of a method must be an identifier"))?;
        let access = match read_only {
            true => MethodAccess::ReadOnly,
            false => MethodAccess::ReadWrite,
        };
        methods.insert(MethodName::new(name)?, access);
    }
    if methods.len() < registered {
        return Err(Error::invalid("a registered function is not a global function")
            .hint("write `function name(input, output) … end objclass.register(name)`"));
    }
    if methods.is_empty() {
        return Err(Error::invalid("the program registers no method")
            .hint("end it with `objclass.register(name)` for each method"));
    }
    Ok(methods)
}
