//! `group`, `argmax` and `argmin`.

use super::chain::Rows;
use super::{Resolved, Resolver};
use crate::diagnostic::{Diagnostic, listing, suggestion};
use crate::ir::{Aggregate, Body, CollectionId, Extreme, Function, Group};
use crate::span::Span;
use crate::syntax::ast::{Argument, ArgumentKind, Call, ColumnName, Name};
use nacre_calls::Value;

impl<'a> Resolver<'a> {
    pub(super) fn group(&mut self, input: CollectionId, call: &Call) -> Resolved<Rows> {
        let Some((keys, rest)) = call.arguments.split_first() else {
            return self.group_usage(call.span);
        };
        let ArgumentKind::Columns(keys) = &keys.kind else {
            return self.group_usage(keys.span);
        };
        let (keys, mut names) = self.key_columns(input, keys)?;
        let mut aggregates = vec![];
        for argument in rest {
            let (aggregate, name) = self.aggregate(input, argument, keys.is_empty())?;
            aggregates.push(aggregate);
            names.push(name);
        }
        let with_default = aggregates.iter().filter(|one| one.default.is_some()).count();
        if with_default > 0 && with_default < aggregates.len() {
            let error =
                Diagnostic::error(call.span, "either all aggregates have a default or none");
            return self.error(error.help("without rows the others would have no value"));
        }
        if names.is_empty() {
            return self.group_usage(call.span);
        }
        let key_width = keys.len();
        Ok(Rows { body: Body::Group(Group { input, keys, aggregates }), names, key_width })
    }

    fn group_usage<T>(&mut self, span: Span) -> Resolved<T> {
        let error =
            Diagnostic::error(span, "`group` takes the columns to group by, then aggregates");
        self.error(error.help("write `group([:key], max(:value))`; `[]` is one group of all rows"))
    }

    fn key_columns(
        &mut self,
        input: CollectionId,
        columns: &[ColumnName],
    ) -> Resolved<(Vec<usize>, Vec<String>)> {
        let mut keys = vec![];
        let mut names = vec![];
        for name in columns {
            keys.push(self.grouped_column(input, name)?);
            names.push(name.column.text.clone());
        }
        Ok((keys, names))
    }

    /// A column of what is grouped, which may be written with its collection's name.
    fn grouped_column(&mut self, input: CollectionId, name: &ColumnName) -> Resolved<usize> {
        let grouped = &self.collection(input).name;
        match &name.collection {
            Some(other) if other.text != *grouped => {
                let message = format!("`{}` is not what is grouped here", other.text);
                let error = Diagnostic::error(other.span, message);
                self.error(error.help(format!("this groups `{grouped}`")))
            }
            _ => self.column(input, &name.column),
        }
    }

    fn aggregate(
        &mut self,
        input: CollectionId,
        argument: &Argument,
        is_global: bool,
    ) -> Resolved<(Aggregate, String)> {
        let (function_name, column, default) = match &argument.kind {
            ArgumentKind::Aggregate { function, column, default } => {
                (function, column.as_ref(), default.as_ref())
            }
            ArgumentKind::Column(ColumnName { collection: None, column }) => (column, None, None),
            _ => return self.group_usage(argument.span),
        };
        let function = self.function(function_name)?;
        if let (Some((_, span)), false) = (default, is_global) {
            let error =
                Diagnostic::error(*span, "a default is for the one group of `group([], …)`");
            return self.error(error.help("a group by columns exists only where there are rows"));
        }
        let name = match column {
            Some(column) => format!("{}_{}", function.as_str(), column.column.text),
            None => function.as_str().to_owned(),
        };
        let column = match column {
            Some(column) => Some(self.grouped_column(input, column)?),
            None if function == Function::Count => None,
            None => {
                let message = format!("`{}` of which column?", function.as_str());
                let help = format!("write `{}(:column)`", function.as_str());
                return self.error(Diagnostic::error(argument.span, message).help(help));
            }
        };
        let default: Option<Value> = default.map(|(value, _)| value.clone());
        Ok((Aggregate { function, column, default }, name))
    }

    fn function(&mut self, name: &Name) -> Resolved<Function> {
        let names = Function::ALL.map(Function::as_str);
        match Function::ALL.into_iter().find(|function| function.as_str() == name.text) {
            Some(function) => Ok(function),
            None => {
                let message = format!("there is no aggregate `{}`", name.text);
                let help = suggestion(&name.text, names)
                    .unwrap_or_else(|| format!("there are {}", listing(names)));
                self.error(Diagnostic::error(name.span, message).help(help))
            }
        }
    }

    pub(super) fn extreme(&mut self, input: CollectionId, call: &Call) -> Resolved<Rows> {
        let function = match call.method.text.as_str() {
            "argmax" => Function::Max,
            _ => Function::Min,
        };
        let (keys, column) = match call.arguments.as_slice() {
            [
                Argument { kind: ArgumentKind::Columns(keys), .. },
                Argument { kind: ArgumentKind::Column(column), .. },
            ] => (keys, column),
            _ => {
                let method = &call.method.text;
                let message =
                    format!("`{method}` takes the columns to group by and the one that decides");
                let help = format!("write `{method}([:key], :value)`");
                return self.error(Diagnostic::error(call.span, message).help(help));
            }
        };
        let (keys, _) = self.key_columns(input, keys)?;
        let column = self.grouped_column(input, column)?;
        let collection = self.collection(input);
        let names = collection.columns.iter().map(|column| column.name.clone()).collect();
        let key_width = collection.key_width;
        let extreme = Extreme { input, keys, column, function };
        Ok(Rows { body: Body::Extreme(extreme), names, key_width })
    }
}
