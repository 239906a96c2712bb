//! `Locking`: which capabilities of its resources a file type lets clients hold.

use mlua::LuaString;
use nacre_capability::Mode;
use nacre_object::{Error, ProgramName, Result};

/// Which capabilities of its resources a file type lets clients hold, and which capability program decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locking {
    /// The most that a client may hold: the exclusive capability, or shared ones only.
    pub mode: Mode,
    /// The capability program; best effort if there is none.
    pub program: Option<ProgramName>,
}

impl Locking {
    /// What a file type gave to `filetype.capability`.
    ///
    /// # Errors
    /// `Invalid` for another mode, or for what cannot be the name of a program.
    pub(super) fn parse(mode: &LuaString, program: Option<&LuaString>) -> Result<Self> {
        let mode = match &*mode.as_bytes() {
            b"shared" => Mode::Shared,
            b"exclusive" => Mode::Exclusive,
            _ => {
                let text = format!("no capability is called {:?}", mode.to_string_lossy());
                return Err(Error::invalid(text).hint("say \"shared\" or \"exclusive\""));
            }
        };
        let program = program.map(|program| ProgramName::new(program.to_string_lossy()));
        Ok(Self { mode, program: program.transpose()? })
    }
}
