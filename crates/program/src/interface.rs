//! The interface of each kind of program, as data: the functions that a program defines, and its
//! environment.
//!
//! The checker of programs, `nacre program kinds`, error messages and the reference page all use
//! this data.

use crate::Budget;

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
