//! Checks programs that use other programs by name. For example, a file type uses a capability
//! program.
//!
//! The used program must be active before the program that uses it can be activated. It cannot be
//! removed while the program that uses it is active. Otherwise a file type without its capability
//! program would silently grant capabilities by the default policy. The checks do not cover a race:
//! if a program is activated while the program that it uses is removed, both may succeed.

use nacre_object::{Error, Result};

use super::{ProgramId, Programs};

impl Programs {
    /// Refuses to activate a version that uses a program without an active version.
    ///
    /// # Errors
    /// `NotFound`, which names the program without an active version; errors of [`Programs::show`].
    pub(super) async fn check_used(&self, versions: &[(ProgramId, u64)]) -> Result<()> {
        for (program, version) in versions {
            let hook = self.hooks().of(program.kind)?;
            if hook.used_kind().is_none() {
                continue;
            }
            let source = self.show(program, Some(*version)).await?.source;
            let Some(used) = hook.used_program(program, &source) else { continue };
            let is_beside = versions.iter().any(|(other, _)| *other == used);
            if !is_beside && self.active(&used).await?.is_none() {
                let text = format!(
                    "version {version} of {program} uses {used}, which has no active version"
                );
                return Err(Error::not_found(text).hint(format!(
                    "activate that one first: nacre program put {used} FILE --activate"
                )));
            }
        }
        Ok(())
    }

    /// The active programs that use this one.
    ///
    /// # Errors
    /// Errors of [`Programs::list`] and [`Programs::show`].
    pub async fn users(&self, program: &ProgramId) -> Result<Vec<ProgramId>> {
        let mut users = vec![];
        for hook in self.hooks().iter().filter(|hook| hook.used_kind() == Some(program.kind)) {
            for other in self.list(Some(hook.kind())).await? {
                let Some(active) = other.active else { continue };
                let source = self.show(&other.id, Some(active)).await?.source;
                if hook.used_program(&other.id, &source).as_ref() == Some(program) {
                    users.push(other.id);
                }
            }
        }
        Ok(users)
    }
}
