//! The check of a program against the interface of its kind.

use mlua::{Function, Value};
use nacre_object::{Error, Result};

use crate::environment::is_in_environment;
use crate::{FreeName, Run, Script};
use nacre_program::{Constants, FunctionSpec, Interface, Item};

impl Run<'_> {
    /// Runs the script's chunk at the beginning of a run. Returns the functions that `interface`
    /// requires, in the order of [`Interface::functions`].
    ///
    /// # Errors
    /// `Invalid` with the name of a missing function; errors of the chunk.
    pub fn load_functions(&self, interface: &Interface) -> Result<Vec<Function>> {
        self.load()?;
        let required = interface.functions.iter().filter(|spec| spec.is_required);
        let find = |spec: &FunctionSpec| match self.global(spec.name())? {
            Value::Function(function) => Ok(function),
            _ => {
                let text = format!("the program must define a function `{}`", spec.name());
                Err(Error::invalid(text).hint(format!("{}: {}", spec.usage, spec.what)))
            }
        };
        required.map(find).collect()
    }
}

impl Script {
    /// The names that the script reads although neither the script nor `interface` defines them.
    pub fn names_missing_in(&self, interface: &Interface) -> Vec<&FreeName> {
        self.free_names().iter().filter(|name| !provides(interface, name)).collect()
    }
}

fn provides(interface: &Interface, name: &FreeName) -> bool {
    let provides = |item: &Item| match (item.name().split_once('.'), &name.field) {
        (Some((global, field)), Some(read)) => global == name.global && field == read,
        (Some((global, _)), None) => global == name.global,
        (None, _) => item.name() == name.global,
    };
    let holds = |constants: &Constants| {
        let field = name.field.as_deref();
        constants.table == name.global && constants.values.iter().any(|(of, _)| field == Some(of))
    };
    is_in_environment(&name.global, name.field.as_deref())
        || interface.environment.iter().any(provides)
        || interface.constants.iter().any(holds)
}
