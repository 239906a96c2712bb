//! Keeps states of objects on a storage node: as snapshots of the objects, which the engine copies on
//! write. That an object was absent is [noted](super::notes).

use nacre_object::{
    Error, ErrorKind, IoHeader, Op, OpResult, Request, Result, SnapshotName, Stack, Store,
};

use super::notes::Note;
use super::{KeptState, KnownStates};
use crate::routes::NodeSwitch;

/// What the names begin with under which the engine has these snapshots.
const KEPT: &str = "kept-";

/// The name under which the engine has the snapshot of an object.
pub(super) fn stored_name(name: &SnapshotName) -> Result<SnapshotName> {
    SnapshotName::new(format!("{KEPT}{name}"))
}

impl NodeSwitch {
    /// Refuses users' snapshots with the names of those that rules keep.
    ///
    /// # Errors
    /// `Invalid`.
    pub(in crate::routes) fn check_kept_names(&self, request: &Request) -> Result<()> {
        let takes_name = |op: &Op| match op {
            Op::SnapshotCreate { snapshot } | Op::SnapshotRemove { snapshot } => {
                snapshot.as_str().starts_with(KEPT)
            }
            _ => false,
        };
        // RADOS refuses all snapshots of users.
        let may_have =
            || self.locations().rados().is_none() && self.is_kept(&request.header.object);
        if !request.ops.iter().any(takes_name) || !may_have() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "rules keep the snapshots of this object that begin with {KEPT}"
        ))
        .on(&request.header.object)
        .hint("choose another name; to drop a kept snapshot, take its name out of the rule first"))
    }

    /// Keeps the state of an object, or that it is absent, under a name.
    pub(super) async fn keep_in_engine(
        &self,
        next: &Stack,
        header: &IoHeader,
        name: &SnapshotName,
    ) -> Result<()> {
        let take = Op::SnapshotCreate { snapshot: stored_name(name)? };
        match next.submit(Request { header: header.clone(), ops: vec![take] }).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.note_state(&header.object, name, Note::Absent).await
            }
            taken => taken.map(drop),
        }
    }

    /// Drops the state of an object under a name.
    pub(super) async fn drop_in_engine(
        &self,
        next: &Stack,
        header: &IoHeader,
        name: &SnapshotName,
    ) -> Result<()> {
        let ops = vec![Op::SnapshotRemove { snapshot: stored_name(name)? }];
        next.submit(Request { header: header.clone(), ops }).await.map(drop)
    }

    /// Adds the states of an object that the engine has.
    pub(super) async fn add_states_in_engine(
        &self,
        next: &Stack,
        header: &IoHeader,
        known: &mut KnownStates,
    ) -> Result<()> {
        let list = Request { header: header.clone(), ops: vec![Op::SnapshotList] };
        let snapshots = match next.submit(list).await?.results.into_iter().next() {
            Some(OpResult::Snapshots(all)) => all,
            _ => {
                return Err(
                    Error::corrupt("the reply to a list has no snapshots").on(&header.object)
                );
            }
        };
        let names = snapshots.iter().filter_map(|name| name.as_str().strip_prefix(KEPT));
        let states = names.filter_map(|name| Some((name.parse().ok()?, KeptState::InEngine)));
        known.0.extend(states);
        Ok(())
    }
}
