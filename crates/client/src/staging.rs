//! Staging objects, which collect the content of a large put until it is complete.
//!
//! The staging object of `NAME` is called `NAME.nacre-put.N`, with the least N that places it on
//! the target of `NAME`. Each write to it is guarded by its version. Once it is complete, the put
//! makes a snapshot of it, and one transaction gives the object that snapshot's stream.
//!
//! **Invariants:**
//! - All puts of an object use one staging object. So a put removes the content that a killed put
//!   left. Of two concurrent puts the later one takes the staging object, and the earlier one ends
//!   with `Conflict`.
//! - A snapshot's name contains the version that it keeps. So no put gives the object the content
//!   of another put.

use bytes::Bytes;
use nacre_object::limits::MAX_OBJECT_NAME_BYTES;
use nacre_object::{Error, ErrorKind, ObjectName, Op, Result, SnapshotName};

use crate::Object;

/// What the name of a staging object has after the name of its object.
const SUFFIX: &str = ".nacre-put.";
/// How many names for a staging object are tried until placement puts one on the object's target.
/// It puts a name there with a probability equal to the target's share of all weights.
const MAX_NAMES: u32 = 4096;
/// How many times a put tries to begin while other puts of the same object begin.
const MAX_BEGINNINGS: u32 = 3;

/// The name of the object for whose large put an object collects the content; `None` if the object
/// is no staging object.
pub fn staged_object(name: &ObjectName) -> Option<&str> {
    let name = name.as_str();
    // Each request asks this. `rsplit_once` would first analyse the suffix, which takes longer.
    let mut parts = name.as_bytes().windows(SUFFIX.len());
    parts.rposition(|part| part == SUFFIX.as_bytes()).map(|at| &name[..at])
}

/// A put that has begun.
#[derive(Debug)]
pub(crate) struct Staging<'a> {
    object: &'a Object,
    staged: Object,
    /// The staging object's version after this put's last part.
    version: u64,
}

impl<'a> Staging<'a> {
    /// Begins a put with its first part, which replaces what an earlier put left in the staging
    /// object.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot copy streams; `Conflict` if other puts of the object began
    /// during each attempt; `Invalid` if the object's name is too long to be extended to that of
    /// the staging object.
    pub async fn begin(object: &'a Object, first: Bytes) -> Result<Self> {
        let staged = staging_object(object)?;
        for _ in 0..MAX_BEGINNINGS {
            remove_leftovers(&staged).await?;
            let ops = vec![Op::AssertAbsent, Op::WriteFull { data: first.clone() }];
            match staged.submit(ops).await {
                Ok(reply) => return Ok(Self { object, staged, version: reply.version }),
                Err(error) if error.kind() == ErrorKind::Exists => {}
                Err(error) => return Err(error),
            }
        }
        Err(superseded(object))
    }

    /// Adds the next part.
    ///
    /// # Errors
    /// `Conflict` if another put of the object began.
    pub async fn append(&mut self, data: Bytes) -> Result<()> {
        self.version = self.submit(Op::Append { data }).await?;
        Ok(())
    }

    /// Makes the object take over the content.
    ///
    /// # Errors
    /// As [`Staging::append`].
    pub async fn take_over(&mut self) -> Result<()> {
        let snapshot = self.snapshot()?;
        self.submit(Op::SnapshotCreate { snapshot: snapshot.clone() }).await?;
        let source = self.staged.id().name.clone();
        let taken = self.object.submit(vec![Op::WriteFullFrom { source, snapshot }]).await;
        taken.map(drop).map_err(|error| self.explained(error))
    }

    /// Removes the staging object, if no other put has taken it. A failure does not matter: the
    /// next put of the object removes it.
    pub async fn remove(self) {
        if let Ok(snapshot) = self.snapshot() {
            let _ = self.submit(Op::SnapshotRemove { snapshot }).await;
        }
        let _ = self.submit(Op::Remove).await;
    }

    fn snapshot(&self) -> Result<SnapshotName> {
        SnapshotName::new(format!("put-{}", self.version))
    }

    /// Changes the staging object, if no other put has changed it. Returns its new version.
    async fn submit(&self, op: Op) -> Result<u64> {
        let ops = vec![Op::AssertVersion(self.version), op];
        let reply = self.staged.submit(ops).await;
        reply.map(|reply| reply.version).map_err(|error| self.explained(error))
    }

    fn explained(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::NotFound => superseded(self.object),
            _ => error.on(self.object.id()),
        }
    }
}

fn superseded(object: &Object) -> Error {
    Error::conflict("another put of this object began before this one was complete")
        .during("put")
        .on(object.id())
        .hint("put it again: this put has changed nothing")
}

fn staging_object(object: &Object) -> Result<Object> {
    let (pool, name) = (object.pool(), object.id().name.as_str());
    let longest = MAX_OBJECT_NAME_BYTES - SUFFIX.len() - MAX_NAMES.to_string().len();
    if name.len() > longest {
        return Err(Error::invalid(format!(
            "a name of {} bytes is too long for large content",
            name.len()
        ))
        .during("put")
        .on(object.id())
        .hint(format!(
            "use a name of at most {longest} bytes for content that needs several requests"
        )));
    }
    for number in 0..MAX_NAMES {
        let staged = pool.object(&format!("{name}{SUFFIX}{number}"))?;
        if pool.share_target(staged.id(), object.id()) {
            return Ok(staged);
        }
    }
    Err(Error::unavailable("no name was found that puts the staging object on the object's target")
        .during("put")
        .on(object.id())
        .hint("choose another object name"))
}

/// Removes what an earlier put left, or is still writing.
async fn remove_leftovers(staged: &Object) -> Result<()> {
    let unless_gone = |removed: Result<()>| match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    for snapshot in staged.snapshots().await? {
        unless_gone(staged.remove_snapshot(snapshot).await)?;
    }
    unless_gone(staged.remove().await)
}
