//! The passes from text to an order of evaluation, one after another.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::Program;
use crate::limits::MAX_SOURCE_BYTES;
use crate::span::Span;
use crate::stratify::Stratum;
use crate::{lints, resolve, stratify, syntax, types};

/// A program that is understood.
#[derive(Debug)]
pub struct Analysis {
    /// Its rules, resolved and typed.
    pub program: Program,
    /// Its collections in an order of evaluation.
    pub strata: Vec<Stratum>,
}

/// Runs the passes that analyse a source. Stops after the first pass that finds errors, because
/// later passes would only report the consequences of these errors.
pub(crate) fn analyse(source: &str, diagnostics: &mut Diagnostics) -> Option<Analysis> {
    if source.len() > MAX_SOURCE_BYTES {
        let message =
            format!("the program has {} bytes; at most {MAX_SOURCE_BYTES} fit", source.len());
        let error = Diagnostic::error(Span::default(), message);
        diagnostics.add(error.help("divide it: objects of several classes can call each other"));
        return None;
    }
    let tokens = syntax::lexer::tokens(source, diagnostics);
    let tree = syntax::parse(source, tokens, diagnostics);
    if diagnostics.has_errors() {
        return None;
    }
    let mut program = resolve::resolve(&tree, diagnostics);
    if diagnostics.has_errors() {
        return None;
    }
    if let Some(error) = no_method(&program) {
        diagnostics.add(error);
        return None;
    }
    types::infer(&mut program, source, diagnostics);
    let strata = stratify::stratify(&program, source, diagnostics);
    lints::check(&program, diagnostics);
    (!diagnostics.has_errors()).then_some(Analysis { program, strata })
}

/// A class without methods is none.
fn no_method(program: &Program) -> Option<Diagnostic> {
    let has_input = program.of_kind(crate::syntax::ast::Kind::Input).next().is_some();
    (!has_input).then(|| {
        let error = Diagnostic::error(
            Span::default(),
            "the program has no input: nothing could be asked of it",
        );
        error.help("declare `interface input :name, [:column]` in `state do … end`")
    })
}
