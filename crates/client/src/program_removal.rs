//! Removes programs, unless something still uses them.
//!
//! **Invariant:** an active version is not removed while a log, a routing rule or another program
//! uses it. The check misses a use that begins during the removal.

use nacre_log::view::View;
use nacre_object::{Error, ErrorKind, Result};
use nacre_registry::{ProgramId, ProgramKind, Removal};

use crate::Cluster;

impl Cluster {
    /// Removes a version of a program, or all its versions, as [`nacre_registry::Programs::remove`]
    /// does. Refuses to remove the active version while a log, a routing rule or another program
    /// uses it. Does not consider logs, rules and programs that the caller may not read.
    ///
    /// # Errors
    /// `Conflict` with what uses the program; those of `Programs::remove`.
    pub async fn remove_program(
        &self,
        program: &ProgramId,
        version: Option<u64>,
        removal: Removal,
    ) -> Result<()> {
        let active = self.programs().active(program).await?;
        let goes = active.is_some() && version.is_none_or(|version| active == Some(version));
        if goes && removal == Removal::EvenIfActive {
            match program.kind {
                ProgramKind::Class => self.check_stores_no_log(program).await?,
                ProgramKind::Capability => self.check_decides_for_no_log(program).await?,
                ProgramKind::Route | ProgramKind::Waypoint => {
                    self.check_decides_for_no_rule(program).await?;
                }
                ProgramKind::Control => self.check_makes_no_rules(program).await?,
                _ => {}
            }
            self.check_is_not_used(program).await?;
        }
        self.programs().remove(program, version, removal).await
    }

    async fn check_is_not_used(&self, program: &ProgramId) -> Result<()> {
        let users = match self.programs().users(program).await {
            Err(error) if error.kind() == ErrorKind::Denied => return Ok(()),
            users => users?,
        };
        let Some(first) = users.first() else { return Ok(()) };
        let text = match users.len() - 1 {
            0 => format!("{first} uses {program}"),
            more => format!("{first} and {more} more use {program}"),
        };
        Err(Error::conflict(text)
            .hint("make those programs do without it, or activate another version of it"))
    }

    async fn check_stores_no_log(&self, program: &ProgramId) -> Result<()> {
        let class = program.name.as_str().parse()?;
        let Some(logs) = self.some_logs(|view| view.class() == &class).await? else {
            return Ok(());
        };
        let text = format!("{program} stores the entries of {logs}");
        Err(Error::conflict(text)
            .hint("remove these logs with `nacre log rm`, or activate another version of it"))
    }

    async fn check_decides_for_no_log(&self, program: &ProgramId) -> Result<()> {
        let is_by_it = |view: &View| view.capability() == Some(&program.name);
        let Some(logs) = self.some_logs(is_by_it).await? else { return Ok(()) };
        let text = format!("{program} decides who issues the positions of {logs}");
        Err(Error::conflict(text)
            .hint("run `nacre log set LOG --capability none`, or activate another version of it"))
    }

    /// Describes, for an error message, the logs whose view satisfies `is_such`. Returns `None` if
    /// there are no such logs, or if the caller may not list logs.
    async fn some_logs(&self, is_such: impl Fn(&View) -> bool) -> Result<Option<String>> {
        let logs = match self.logs_whose_view(is_such).await {
            Err(error) if error.kind() == ErrorKind::Denied => return Ok(None),
            logs => logs?,
        };
        Ok(match &logs[..] {
            [] => None,
            [log] => Some(format!("the log {log}")),
            [first, others @ ..] => Some(format!("the log {first} and {} more", others.len())),
        })
    }
}
