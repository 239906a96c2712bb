//! Tracks which version of a class this client names in its calls. It is the version that was
//! active when the client last read the map `programs`. If a node refuses a call because another
//! version is active now, the client reads the map again.

use std::collections::HashMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use nacre_log::ClassVersions;
use nacre_object::{ClassName, Result};
use nacre_registry::{ProgramId, ProgramKind, Programs};

pub(crate) struct ProgramVersions {
    programs: Programs,
    seen: RwLock<HashMap<ClassName, Option<u64>>>,
}

impl ProgramVersions {
    pub(crate) fn new(programs: Programs) -> Self {
        Self { programs, seen: RwLock::default() }
    }
}

impl fmt::Debug for ProgramVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramVersions").field("seen", &self.seen).finish_non_exhaustive()
    }
}

#[async_trait]
impl ClassVersions for ProgramVersions {
    fn version(&self, class: &ClassName) -> Option<u64> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.get(class).copied().flatten()
    }

    async fn refresh(&self, class: &ClassName) -> Result<()> {
        let program = ProgramId::new(ProgramKind::Class, class.as_str().parse()?);
        // None: a native class, whose calls carry no version.
        let active = self.programs.active(&program).await?;
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.insert(class.clone(), active);
        Ok(())
    }
}
