//! Records whether the engine may still write. Every write checks this first.
//!
//! After a failed write or sync the state of the disk is unknown. The kernel may have dropped the
//! unwritten pages, and later syncs may succeed without them. So the first failure is final until
//! the directory is opened again. Even then, the kernel may serve pages from memory that never
//! reached the disk. So opening rewrites the last journal group before it uses the group's records
//! ([`crate::journal::recovery`]).

use std::sync::OnceLock;

use nacre_object::{Error, Result};

/// Refuses writes after a failed write or sync.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failure: OnceLock<String>,
}

impl Health {
    /// Stops all writing. If it is called again, the first reason stays.
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
