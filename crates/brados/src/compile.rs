//! A source to a class.

use std::fmt;

use crate::analysis::{Analysis, analyse};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::emit::{self, Class};
use crate::layout;
use crate::limits::MAX_CLASS_BYTES;
use crate::plan::{self, ClassPlan};
use crate::span::Span;

/// A program that compiles.
#[derive(Debug)]
pub struct Compiled {
    /// The program with resolved names, and its strata.
    pub analysis: Analysis,
    /// How it is carried out.
    pub plan: ClassPlan,
    /// The class.
    pub class: Class,
    /// The warnings about the program.
    pub warnings: Vec<Diagnostic>,
}

impl Compiled {
    /// The methods that take some microseconds, however much data their object has.
    pub fn brief(&self) -> impl Iterator<Item = &str> {
        let program = &self.analysis.program;
        self.plan.brief(program).map(|method| &*program.collection(method.input).name)
    }
}

/// A program that does not compile: its errors, and its warnings too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors(pub Vec<Diagnostic>);

impl CompileErrors {
    /// The first error.
    pub fn first(&self) -> Option<&Diagnostic> {
        self.0.iter().find(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// All of them, as compilers show them.
    pub fn render(&self, file: &str, source: &str) -> String {
        self.0.iter().map(|diagnostic| diagnostic.render(file, source)).collect()
    }
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.first().map(Diagnostic::summary);
        f.write_str(text.as_deref().unwrap_or("the program does not compile"))
    }
}

impl std::error::Error for CompileErrors {}

/// Compiles a program.
///
/// # Errors All mistakes of the program.
pub fn compile(source: &str) -> Result<Compiled, CompileErrors> {
    let mut diagnostics = Diagnostics::default();
    let compiled = analyse(source, &mut diagnostics).and_then(|analysis| {
        let plan = plan::plan(&analysis.program, &analysis.strata, &mut diagnostics)?;
        layout::check_declared(&analysis.program, &plan, &mut diagnostics);
        if diagnostics.has_errors() {
            return None;
        }
        let class = emit::emit(&analysis.program, &plan, source);
        if class.lua.len() > MAX_CLASS_BYTES {
            let message = format!(
                "the class would have {} bytes; at most {MAX_CLASS_BYTES} fit",
                class.lua.len()
            );
            let error = Diagnostic::error(Span::default(), message);
            diagnostics
                .add(error.help("divide the program, or join fewer collections in one rule"));
            return None;
        }
        Some((analysis, plan, class))
    });
    let found = diagnostics.into_sorted();
    match compiled {
        Some((analysis, plan, class)) => Ok(Compiled { analysis, plan, class, warnings: found }),
        None => Err(CompileErrors(found)),
    }
}

/// Returns the mistakes and warnings of a source; none if it is in order.
pub fn check(source: &str) -> Vec<Diagnostic> {
    match compile(source) {
        Ok(compiled) => compiled.warnings,
        Err(CompileErrors(found)) => found,
    }
}

/// Guesses from the beginning of a source whether it is Brados or Lua. No Lua program begins with
/// `#`, `state do`, `bloom do`, `bloom :name do`, `layout name:` or `former layout`.
pub fn is_brados(source: &str) -> bool {
    if source.starts_with('#') && !source.starts_with("#!") {
        return true;
    }
    let mut words = source.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("state" | "bloom"), Some("do"), _) => true,
        (Some("bloom"), Some(name), Some("do")) => name.starts_with(':'),
        (Some("former"), Some("layout"), _) | (Some("layout"), Some("map"), _) => true,
        (Some("layout"), Some(name), _) => name.ends_with(':'),
        _ => false,
    }
}
