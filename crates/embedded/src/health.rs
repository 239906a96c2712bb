//! Records whether the engine may still write.
//!
//! After a failed write or sync the state of the disk is unknown: the kernel may have dropped the
//! dirty pages and report success from then on. So the first failure is final until the directory
//! is opened again. Even then the kernel may serve pages from memory that never reached the disk.
//! Opening therefore rewrites the last group before it trusts it ([`crate::journal::recovery`]).

use std::sync::OnceLock;

use nacre_object::{Error, Result};

/// Says no to writes once something failed that must not.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failure: OnceLock<String>,
}

impl Health {
    /// Stops all writing; the first reason stays.
    pub fn poison(&self, reason: impl Into<String>) {
        let _ = self.failure.set(reason.into());
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// # Errors
    /// `Unavailable` once poisoned, with the reason.
    pub fn check(&self) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some(reason) => Err(Error::unavailable(format!("this store is read-only: {reason}"))
                .hint("see to the disk, then open the store again")),
        }
    }
}
