//! Resolves names to collections and columns: turns the syntax tree into an [`ir::Program`].
//!
//! The order of declarations and rules does not matter, because a `temp` is resolved when it is
//! first used. A rule with a mistake is reported and left out, and the other rules are still
//! resolved.

mod chain;
mod declare;
mod expression;
mod group;
mod join;
mod rule;

use std::collections::HashMap;

use crate::diagnostic::{Diagnostic, Diagnostics, listing, suggestion};
use crate::ir::{self, CollectionId};
use crate::syntax::ast::{self, Kind, Name};

/// A mistake that was reported.
struct Reported;

type Resolved<T> = Result<T, Reported>;

/// Resolves every name; what cannot be is reported.
pub(crate) fn resolve(tree: &ast::Program, diagnostics: &mut Diagnostics) -> ir::Program {
    let mut resolver = Resolver {
        program: ir::Program::default(),
        names: HashMap::new(),
        temps: HashMap::new(),
        diagnostics,
    };
    resolver.program.layouts = tree
        .layouts
        .iter()
        .map(|line| ir::DeclaredLayout {
            layout: line.layout.clone(),
            is_former: line.is_former,
            span: line.span,
        })
        .collect();
    resolver.declare(&tree.declarations);
    resolver.find_temps(&tree.blocks);
    resolver.check_blocks(&tree.blocks);
    if resolver.has_too_many() {
        return resolver.program;
    }
    for rule in tree.blocks.iter().flat_map(|block| &block.rules) {
        // A rule with a mistake is reported and left out.
        let _ = resolver.rule(rule);
    }
    resolver.program
}

struct Resolver<'a> {
    program: ir::Program,
    names: HashMap<String, CollectionId>,
    temps: HashMap<String, Temp<'a>>,
    diagnostics: &'a mut Diagnostics,
}

/// How far a `temp` has come.
#[derive(Clone, Copy)]
enum Temp<'a> {
    Unresolved(&'a ast::Rule),
    UnderWay,
    Resolved(CollectionId),
    /// Its rule has a mistake, which was reported.
    Failed,
}

impl<'a> Resolver<'a> {
    fn error<T>(&mut self, error: Diagnostic) -> Resolved<T> {
        self.diagnostics.add(error);
        Err(Reported)
    }

    fn collection(&self, id: CollectionId) -> &ir::Collection {
        self.program.collection(id)
    }

    /// The collection of this name, even if it is declared later.
    fn find(&mut self, name: &Name) -> Resolved<CollectionId> {
        if let Some(id) = self.names.get(&name.text) {
            return Ok(*id);
        }
        match self.temps.get(&name.text).copied() {
            Some(Temp::Resolved(id)) => Ok(id),
            Some(Temp::Unresolved(rule)) => self.temp(rule),
            Some(Temp::Failed) => Err(Reported),
            Some(Temp::UnderWay) => {
                let message = format!("the temp `{}` is computed from itself", name.text);
                let help = "declare it as a `scratch`, whose columns are known beforehand";
                self.error(Diagnostic::error(name.span, message).help(help))
            }
            None => {
                let known = self.names.keys().chain(self.temps.keys()).map(String::as_str);
                let help = suggestion(&name.text, sorted(known));
                let message = format!("there is no collection `{}`", name.text);
                let help = help.unwrap_or_else(|| "declare it in `state do … end`".to_owned());
                self.error(Diagnostic::error(name.span, message).help(help))
            }
        }
    }

    /// A collection that is read.
    fn readable(&mut self, name: &Name) -> Resolved<CollectionId> {
        let id = self.find(name)?;
        if self.collection(id).width() == 0 && self.collection(id).kind != Kind::Temp {
            // Its schema has a mistake, which was reported.
            return Err(Reported);
        }
        let help = match self.collection(id).kind {
            Kind::Output => {
                "an output is only replied; put the rows into a `temp` or `scratch` first"
            }
            Kind::Channel => {
                "a channel is only sent to; put the rows into a `temp` or `scratch` first"
            }
            _ => return Ok(id),
        };
        let kind = self.collection(id).kind.as_str();
        let message = format!("the {kind} `{}` cannot be read", name.text);
        self.error(Diagnostic::error(name.span, message).help(help))
    }

    /// The column of this name.
    fn column(&mut self, id: CollectionId, name: &Name) -> Resolved<usize> {
        let collection = self.collection(id);
        let of_name = |column: &ir::Column| column.name == name.text;
        let found = collection.columns.iter().filter(|column| of_name(column)).count();
        if found == 1 {
            return collection.columns.iter().position(of_name).ok_or(Reported);
        }
        let of = &collection.name;
        let error = match found {
            0 => {
                let names = || collection.columns.iter().map(|column| column.name.as_str());
                let help = suggestion(&name.text, names())
                    .unwrap_or_else(|| format!("it has {}", listing(names())));
                let message = format!("`{of}` has no column `{}`", name.text);
                Diagnostic::error(name.span, message).help(help)
            }
            _ => {
                let message = format!("`{}` names {found} columns of `{of}`", name.text);
                let help = "write the columns of the row out, in a `scratch` with other names";
                Diagnostic::error(name.span, message).help(help)
            }
        };
        self.error(error)
    }
}

/// Sorted, so that of equally good suggestions always the same one is made.
fn sorted<'s>(names: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}
