//! `Locking`: which capabilities a file type lets clients hold on its resources.

use mlua::Value;
use nacre_capability::Mode;
use nacre_object::{Error, ProgramName, Result};

/// Which capabilities clients may hold on the resources of a file type, and which capability
/// program decides about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locking {
    /// The strongest capability that a client may hold: the exclusive one, or only a shared one.
    pub mode: Mode,
    /// The capability program. `None` stands for the default policy.
    pub program: Option<ProgramName>,
}

impl Locking {
    /// Reads the arguments of `filetype.capability`.
    ///
    /// # Errors
    /// `Invalid` for an unknown mode, or for a value that cannot be the name of a program.
    pub(super) fn parse(mode: &Value, program: &Value) -> Result<Self> {
        let mode = match mode {
            Value::String(mode) if *mode == "shared" => Mode::Shared,
            Value::String(mode) if *mode == "exclusive" => Mode::Exclusive,
            _ => {
                let text = "filetype.capability takes \"shared\" or \"exclusive\", and the name of a program";
                return Err(Error::invalid(text));
            }
        };
        let program = match program {
            Value::Nil => None,
            Value::String(name) => Some(ProgramName::new(name.to_string_lossy())?),
            _ => return Err(Error::invalid("the name of a capability program must be a string")),
        };
        Ok(Self { mode, program })
    }
}
