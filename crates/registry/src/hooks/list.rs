//! `Hooks`: the hooks of a process.

use std::collections::BTreeMap;
use std::sync::Arc;

use nacre_object::Result;
use nacre_program::MAX_SOURCE_BYTES;

use super::hook::runs_none;
use super::{Hook, LiveProgram, SourceError};
use crate::programs::{ProgramId, ProgramKind};

/// The hooks that a process has, by kind. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hooks(BTreeMap<ProgramKind, Arc<dyn Hook>>);

impl Hooks {
    /// No hooks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook to these. It replaces another hook of the same kind.
    #[must_use]
    pub fn with(mut self, hook: impl Hook + 'static) -> Self {
        self.0.insert(hook.kind(), Arc::new(hook));
        self
    }

    /// The hooks, in the order of their kinds.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Hook> {
        self.0.values().map(|hook| &**hook)
    }

    /// The hook of a kind.
    ///
    /// # Errors
    /// `Unsupported` with the kinds that have one.
    pub fn of(&self, kind: ProgramKind) -> Result<&dyn Hook> {
        self.0.get(&kind).map(|hook| &**hook).ok_or_else(|| {
            let kinds: Vec<_> = self.0.keys().map(|kind| kind.as_str()).collect();
            runs_none(kind).hint(match kinds.is_empty() {
                true => {
                    "this process checks no programs: build it with the feature `programs`".into()
                }
                false => format!("put a program of one of these kinds: {}", kinds.join(", ")),
            })
        })
    }

    /// Compiles and dry-runs a source.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        let hook = self.of(program.kind)?;
        if source.len() > MAX_SOURCE_BYTES {
            let bytes = source.len();
            let text = format!("the source has {bytes} bytes; at most {MAX_SOURCE_BYTES} fit");
            return Err(SourceError::new(text));
        }
        hook.check(program, source)
    }

    /// Makes a program live, see [`Hook::install`].
    ///
    /// # Errors
    /// Errors of the hook; `Unsupported` if there is none.
    pub fn install(&self, program: &LiveProgram) -> Result<()> {
        self.of(program.id.kind)?.install(program)
    }

    /// Drops a program, see [`Hook::uninstall`]. Does nothing for a kind without a hook, because
    /// such a kind has no live programs.
    ///
    /// # Errors
    /// Errors of the hook.
    pub fn uninstall(&self, program: &ProgramId) -> Result<()> {
        self.0.get(&program.kind).map_or(Ok(()), |hook| hook.uninstall(program))
    }
}
