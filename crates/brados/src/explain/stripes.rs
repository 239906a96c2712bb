//! Describes how a program can be striped.

use crate::compile::Compiled;
use crate::ir::CollectionId;
use crate::stripes::{Route, Striping, striping};

/// Explains which column divides each table of a program into stripes, and to which stripes the
/// requests of each method go. If the program cannot be striped, explains why.
pub fn explain_stripes(compiled: &Compiled) -> Vec<String> {
    match striping(compiled) {
        Ok(striping) => explain(compiled, &striping),
        Err(reasons) => {
            let reasons = reasons.into_iter().map(|one| match one.method.as_str() {
                "" => format!("  {}", one.reason),
                method => format!("  {method}: {}", one.reason),
            });
            ["no stripes:".to_owned()].into_iter().chain(reasons).collect()
        }
    }
}

fn explain(compiled: &Compiled, striping: &Striping) -> Vec<String> {
    let program = &compiled.analysis.program;
    let name = |id: CollectionId| program.collection(id).name.as_str();
    let column = |id, at: usize| program.collection(id).columns[at].name.as_str();
    let divided: Vec<_> = striping
        .divided
        .iter()
        .map(|(table, at)| format!("{}.{}", name(*table), column(*table, *at)))
        .collect();
    let methods = striping.methods.iter().map(|(input, route)| match route {
        Route::Column(at) => format!("  {}: by {}", name(*input), column(*input, *at)),
        Route::Any => format!("  {}: any stripe", name(*input)),
        Route::Every { apart } if apart.is_empty() => format!("  {}: every stripe", name(*input)),
        Route::Every { apart } => {
            let apart: Vec<_> = apart.iter().map(|id| name(*id)).collect();
            format!("  {}: every stripe, {} each for itself", name(*input), apart.join(" and "))
        }
    });
    [format!("stripes, by {}:", divided.join(" and "))].into_iter().chain(methods).collect()
}
