//! What the programs of one kind define and what they find, as data.
//!
//! The check of a program, `nacre program kinds`, error messages and the reference page come from this data.

use mlua::{Function, Value};
use nacre_object::{Error, Result};

use crate::environment::is_in_environment;
use crate::{Budget, FreeName, Run, Script};

/// The interface of one kind of program.
#[derive(Debug, Clone, Copy)]
pub struct Interface {
    /// What programs of this kind are for, in one sentence.
    pub purpose: &'static str,
    /// The languages in which they are written.
    pub languages: &'static [&'static str],
    /// The functions that a program defines.
    pub functions: &'static [FunctionSpec],
    /// The global names that it finds besides the library of all programs.
    pub environment: &'static [Item],
    /// Constants in tables of the environment.
    pub constants: &'static [Constants],
    /// What one run may use.
    pub budget: Budget,
}

/// A function that a program defines.
#[derive(Debug, Clone, Copy)]
pub struct FunctionSpec {
    /// How it is defined, as `commit(proposal, map)`.
    pub usage: &'static str,
    /// When it is called, and what it should do.
    pub what: &'static str,
    /// Whether the program must define it under this name.
    pub is_required: bool,
    /// What its arguments hold.
    pub arguments: &'static [Item],
}

/// Whole numbers that a table of the environment holds.
#[derive(Debug, Clone, Copy)]
pub struct Constants {
    /// The name of the table.
    pub table: &'static str,
    /// The constants, by name.
    pub values: &'static [(&'static str, i32)],
}

/// A name and what it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// How it is written, as `map.get(key)`.
    pub usage: &'static str,
    /// What it is, or what it returns.
    pub what: &'static str,
}

impl Item {
    /// An item.
    pub const fn new(usage: &'static str, what: &'static str) -> Self {
        Self { usage, what }
    }

    /// Its name, without arguments.
    pub fn name(&self) -> &'static str {
        name_of(self.usage)
    }
}

impl FunctionSpec {
    /// Its name, without arguments.
    pub fn name(&self) -> &'static str {
        name_of(self.usage)
    }
}

fn name_of(usage: &'static str) -> &'static str {
    usage.split_once('(').map_or(usage, |(name, _)| name)
}

impl Interface {
    /// Executes the chunk of a run that has just begun, and answers the functions that it must define, in the order
    /// of [`Interface::functions`].
    ///
    /// # Errors
    /// `Invalid` with the function that is missing; those of the chunk.
    pub fn load(&self, run: &Run<'_>) -> Result<Vec<Function>> {
        run.load()?;
        let required = self.functions.iter().filter(|spec| spec.is_required);
        let find = |spec: &FunctionSpec| match run.global(spec.name())? {
            Value::Function(function) => Ok(function),
            _ => {
                let text = format!("the program must define a function `{}`", spec.name());
                Err(Error::invalid(text).hint(format!("{}: {}", spec.usage, spec.what)))
            }
        };
        required.map(find).collect()
    }

    /// The names that a script reads, does not define, and does not find here.
    pub fn missing_names<'a>(&self, script: &'a Script) -> Vec<&'a FreeName> {
        script.free_names().iter().filter(|name| !self.provides(name)).collect()
    }

    fn provides(&self, name: &FreeName) -> bool {
        let provides = |item: &Item| match (item.name().split_once('.'), &name.field) {
            (Some((global, field)), Some(read)) => global == name.global && field == read,
            (Some((global, _)), None) => global == name.global,
            (None, _) => item.name() == name.global,
        };
        let holds = |constants: &Constants| {
            let field = name.field.as_deref();
            constants.table == name.global
                && constants.values.iter().any(|(of, _)| field == Some(of))
        };
        is_in_environment(&name.global, name.field.as_deref())
            || self.environment.iter().any(provides)
            || self.constants.iter().any(holds)
    }
}
