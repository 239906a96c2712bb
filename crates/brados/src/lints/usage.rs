//! Collections that nothing reads, and channels nothing is sent into.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{CollectionId, Program};
use crate::syntax::ast::Kind;

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    for id in program.ids() {
        let collection = program.collection(id);
        let what = match collection.kind {
            _ if collection.is_anonymous => continue,
            Kind::Output | Kind::Channel if is_written(program, id) => continue,
            Kind::Output => "nothing is ever put into the output",
            Kind::Channel => "nothing is ever sent into the channel",
            _ if is_read(program, id) => continue,
            Kind::Input => "no rule reads the input",
            Kind::Table => "nothing reads the table",
            Kind::Scratch => "nothing reads the scratch",
            Kind::Temp => "nothing reads the temp",
        };
        let message = format!("{what} `{}`", collection.name);
        let help = match collection.kind {
            Kind::Input => "its method would do nothing; remove it or write its rules",
            Kind::Output | Kind::Channel => "remove it, or write the rule that is missing",
            _ => "remove it, or use it where it is missing",
        };
        diagnostics.add(Diagnostic::warning(collection.span, message).help(help));
    }
}

fn is_read(program: &Program, id: CollectionId) -> bool {
    let reads = program.rules.iter().flat_map(|rule| rule.body.reads(rule.span));
    reads.into_iter().any(|(read, ..)| read == id)
}

fn is_written(program: &Program, id: CollectionId) -> bool {
    program.rules.iter().any(|rule| rule.head == id)
}
