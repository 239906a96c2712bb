//! `PolicyFile`: a policy that is in a file, and in no cluster.

use std::path::Path;

use nacre::SourceError;
use nacre_balance::Policy;
use nacre_object::{Error, FaultSite, Result};

use crate::commands::program::excerpt;
use crate::input::read_text;
use crate::out::note;

/// The name of a policy that comes from standard input.
const UNNAMED: &str = "policy";

/// A policy that is in a file.
pub(super) struct PolicyFile {
    /// The file's name without its end.
    pub name: String,
    shown: String,
    pub source: String,
}

impl PolicyFile {
    /// # Errors
    /// `NotFound` if it cannot be read; `Invalid` if it is no text.
    pub fn read(path: &Path) -> Result<Self> {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = stem.filter(|stem| *stem != "-").unwrap_or(UNNAMED).to_owned();
        Ok(Self { name, shown: path.display().to_string(), source: read_text(path)? })
    }

    /// Compiles it. A mistake is shown with its line.
    ///
    /// # Errors
    /// `Invalid` for a mistake.
    pub fn compile(&self) -> Result<Policy> {
        Policy::compile(&self.name, 0, &self.source).map_err(|error| self.refused(error))
    }

    /// Shows a mistake where it is; answers the error that says so.
    pub fn refused(&self, error: Error) -> Error {
        let mistake = SourceError::from(error);
        note(&excerpt(&mistake, &self.shown, &self.source));
        let program = self.name.clone();
        let site = FaultSite { program, line: mistake.line, ..FaultSite::default() };
        Error::invalid("the policy has an error, shown above").with_fault(site)
    }

    /// Shows what may be a mistake.
    pub fn warn(&self, suspicions: &[SourceError]) {
        for suspicion in suspicions {
            note(&format!("warning: {}", excerpt(suspicion, &self.shown, &self.source)));
        }
    }
}
