//! Declarations, and which `temp`s and blocks there are.

use std::collections::HashMap;

use super::{Resolver, Temp};
use crate::delivery;
use crate::diagnostic::Diagnostic;
use crate::ir::{Collection, CollectionId, Column};
use crate::limits::{MAX_COLLECTIONS, MAX_COLUMNS, MAX_RULES};
use crate::span::Span;
use crate::syntax::ast::{self, Block, Declaration, Kind, Name, Schema};
use nacre_calls::MIGRATE_METHOD;
use nacre_calls::{Base, Type};

/// The methods by which messages are delivered (`emit/channels.lua`, section `outbox`).
const OUTBOX_METHODS: [&str; 2] = ["channel_messages", "channel_delivered"];

impl<'a> Resolver<'a> {
    pub(super) fn declare(&mut self, declarations: &[Declaration]) {
        let mut named: HashMap<&str, &Declaration> = HashMap::new();
        for declaration in declarations {
            let name = &declaration.name;
            if let Some(first) = named.get(name.text.as_str()) {
                let message = format!("`{}` is declared twice", name.text);
                let error = Diagnostic::error(name.span, message);
                self.diagnostics.add(error.note(first.name.span, "first here"));
                continue;
            }
            named.insert(&name.text, declaration);
        }
        for declaration in declarations {
            let is_first = named
                .get(declaration.name.text.as_str())
                .is_some_and(|first| std::ptr::eq(*first, declaration));
            if !is_first {
                continue;
            }
            let (key_width, columns) = self.columns_of(declaration, &named);
            self.check_channel_key(declaration);
            self.check_reserved(declaration);
            let mut collection = Collection {
                name: declaration.name.text.clone(),
                kind: declaration.kind,
                is_anonymous: false,
                columns,
                key_width,
                span: declaration.name.span,
            };
            // A channel without columns was already reported.
            if collection.is_delivered() && collection.width() > 0 {
                delivery::check_columns(&mut collection)
                    .into_iter()
                    .for_each(|error| self.diagnostics.add(error));
            }
            let id = self.add_collection(collection);
            self.names.insert(declaration.name.text.clone(), id);
        }
    }

    /// Adds a collection. Beyond the bound, reports one error.
    pub(super) fn add_collection(&mut self, collection: Collection) -> CollectionId {
        if self.program.collections.len() == MAX_COLLECTIONS {
            let message = "the program has too many collections";
            let help = format!("at most {MAX_COLLECTIONS}, steps within rules included");
            self.diagnostics.add(Diagnostic::error(collection.span, message).help(help));
        }
        self.program.collections.push(collection);
        CollectionId(self.program.collections.len() - 1)
    }

    /// Refuses the names of methods that classes with channels, or with former layouts, have of
    /// their own.
    fn check_reserved(&mut self, declaration: &Declaration) {
        let name = &declaration.name;
        let of = match name.text.as_str() {
            MIGRATE_METHOD => "former layouts",
            text if OUTBOX_METHODS.contains(&text) => "channels",
            _ => return,
        };
        if declaration.kind == Kind::Input {
            let message = format!("`{}` is a method of every class with {of}", name.text);
            let error = Diagnostic::error(name.span, message);
            self.diagnostics.add(error.help("choose another name"));
        }
    }

    /// Refuses a key in a channel. A key makes a new row replace or contradict an older one, but
    /// messages are independent of each other.
    fn check_channel_key(&mut self, declaration: &Declaration) {
        if let (Kind::Channel, Schema::Columns { values: Some(_), .. }) =
            (declaration.kind, &declaration.schema)
        {
            let message = format!("the channel `{}` has a key", declaration.name.text);
            let error = Diagnostic::error(declaration.name.span, message);
            self.diagnostics.add(error.help("messages have no key: list all columns before `=>`"));
        }
    }

    fn columns_of(
        &mut self,
        declaration: &Declaration,
        named: &HashMap<&str, &Declaration>,
    ) -> (usize, Vec<Column>) {
        let mut schema = &declaration.schema;
        // If a chain of `.schema` is longer than the number of declarations, it is circular.
        for _ in 0..=named.len() {
            match schema {
                Schema::Columns { keys, values } => {
                    return self.own_columns(&declaration.name, keys, values.as_deref());
                }
                Schema::SameAs(of) => match named.get(of.text.as_str()) {
                    Some(other) => schema = &other.schema,
                    None => {
                        let message = format!("there is no collection `{}`", of.text);
                        let known = super::sorted(named.keys().copied());
                        let help = crate::diagnostic::suggestion(&of.text, known);
                        self.diagnostics.add(Diagnostic::error(of.span, message).maybe_help(help));
                        return (0, vec![]);
                    }
                },
            }
        }
        let message = format!("the schema of `{}` is its own", declaration.name.text);
        self.diagnostics
            .add(Diagnostic::error(declaration.name.span, message).help("write its columns"));
        (0, vec![])
    }

    fn own_columns(
        &mut self,
        name: &Name,
        keys: &[ast::Column],
        values: Option<&[ast::Column]>,
    ) -> (usize, Vec<Column>) {
        let all: Vec<_> = keys.iter().chain(values.unwrap_or_default()).collect();
        if all.is_empty() {
            let message = format!("`{}` has no columns", name.text);
            self.diagnostics
                .add(Diagnostic::error(name.span, message).help("give it at least one"));
        }
        for (at, column) in all.iter().enumerate() {
            if let Some(first) = all[..at].iter().find(|first| first.name.text == column.name.text)
            {
                let message = format!("there are two columns `{}`", column.name.text);
                let error = Diagnostic::error(column.name.span, message);
                self.diagnostics.add(error.note(first.name.span, "the other one"));
            }
        }
        if all.len() > MAX_COLUMNS {
            let span = all[MAX_COLUMNS].name.span;
            let message = format!("{} columns are too many", all.len());
            let help = format!("a collection has at most {MAX_COLUMNS}");
            self.diagnostics.add(Diagnostic::error(span, message).help(help));
        }
        let columns = all.into_iter().map(|column| {
            let declared = column.base.map(|base| Type { base, may_be_nil: column.may_be_nil });
            untyped_column(&column.name.text, declared, column.name.span)
        });
        (keys.len(), columns.collect())
    }

    pub(super) fn find_temps(&mut self, blocks: &'a [Block]) {
        let rules: Vec<_> = blocks.iter().flat_map(|block| &block.rules).collect();
        if rules.len() > MAX_RULES {
            let message = format!("{} rules are too many", rules.len());
            let help = format!("a program has at most {MAX_RULES}");
            self.diagnostics.add(Diagnostic::error(rules[MAX_RULES].span, message).help(help));
        }
        for rule in rules.into_iter().filter(|rule| rule.is_temp) {
            let name = &rule.head;
            let first = match (self.names.get(&name.text), self.temps.get(&name.text)) {
                (Some(id), _) => Some((self.collection(*id).span, "declared here")),
                (_, Some(Temp::Unresolved(other))) => Some((other.head.span, "first here")),
                _ => None,
            };
            match first {
                Some((span, note)) => {
                    let message = format!("there is a `{}` already", name.text);
                    let help =
                        format!("to add rows to it, write `{} <= …` without `temp`", name.text);
                    let error = Diagnostic::error(name.span, message);
                    self.diagnostics.add(error.note(span, note).help(help));
                }
                None => drop(self.temps.insert(name.text.clone(), Temp::Unresolved(rule))),
            }
        }
    }

    /// Whether there are too many collections to resolve, because the resolution of `temp`s is
    /// recursive.
    pub(super) fn has_too_many(&mut self) -> bool {
        self.names.len() + self.temps.len() > MAX_COLLECTIONS && {
            let message = "the program has too many collections";
            let help = format!("at most {MAX_COLLECTIONS}, steps within rules included");
            self.diagnostics.add(Diagnostic::error(Span::default(), message).help(help));
            true
        }
    }

    pub(super) fn check_blocks(&mut self, blocks: &[Block]) {
        let mut seen: HashMap<&str, &Name> = HashMap::new();
        for name in blocks.iter().filter_map(|block| block.name.as_ref()) {
            if let Some(first) = seen.insert(&name.text, name) {
                let message = format!("there are two blocks `{}`", name.text);
                let error = Diagnostic::error(name.span, message).note(first.span, "the first one");
                self.diagnostics.add(error.help("give one of them another name, or join them"));
            }
        }
    }
}

/// A column whose type is not inferred yet.
pub(super) fn untyped_column(name: &str, declared: Option<Type>, span: Span) -> Column {
    let ty = declared.unwrap_or(Type { base: Base::Bytes, may_be_nil: false });
    Column { name: name.to_owned(), ty, declared, span }
}
