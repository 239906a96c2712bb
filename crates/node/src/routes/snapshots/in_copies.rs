//! Keeps states of objects at the gateway to Ceph that routes: as copies, because RADOS has no snapshots of
//! single objects.
//!
//! 1. The router copies the object ([`ObjectCopy`]), and then [notes](super::notes) durably that the copy is
//!    complete. Only after that the change runs.
//! 2. A copy without a note is worth nothing: its maker was interrupted. The next maker begins anew.
//! 3. A copy is dropped before its note, so that a copy is never left without one. A note without a copy is
//!    one of a name that no rule has.
//!
//! # Invariants
//!
//! - Only one process makes and drops copies and notes. A gateway that becomes the router has shut the
//!   former one out of the Ceph cluster, with all that it had sent.
//! - A request that Ceph has not answered in time may be done later, but not after a later request of the
//!   same gateway on the same object was answered ([`LateChanges`](crate::late_changes::LateChanges)). Whoever
//!   makes or drops a copy first looks at the notes, and at the object before it copies it. The first request
//!   on a copy in the making removes it. So no late change of an object, copy or note comes in between.
//! - A read at a name that finds no note reads the object itself. A change that was late until then is
//!   done, or never will be. So the same read finds the same bytes later.

use nacre_object::{
    Error, IoHeader, ObjectId, ObjectStat, Op, OpResult, Reply, Request, Result, SnapshotName,
    Store,
};

use super::notes::Note;
use super::object_copy::ObjectCopy;
use crate::routes::NodeSwitch;
use crate::routes::background::background;
use crate::routes::versions::with_ops;

/// A request on the copy of an object, from the same client.
pub(super) fn with_ops_on(copy: ObjectId, header: &IoHeader, ops: Vec<Op>) -> Result<Request> {
    with_ops(&IoHeader { object: copy, snapshot: None, ..header.clone() }, ops)
}

impl NodeSwitch {
    /// Keeps the state of an object, or that it is absent, under a name.
    pub(super) async fn keep_copy(&self, header: &IoHeader, name: &SnapshotName) -> Result<()> {
        let object = &header.object;
        let to = self.locations().kept_copy(object, name)?;
        // The semaphore is never closed.
        let _permit = self.snapshots().copying.acquire().await;
        // The cache needs no bytes of the object.
        let (from, store) = (&self.own().past_cache, self.base());
        let note = match (ObjectCopy { from, store, header, to: &to }).make().await? {
            Some(stat) => Note::Copied(stat),
            None => Note::Absent,
        };
        self.note_state(object, name, note).await
    }

    /// Drops the copy of an object under a name, and then its note.
    pub(super) async fn drop_copy_and_note(
        &self,
        object: &ObjectId,
        name: &SnapshotName,
    ) -> Result<()> {
        let copy = self.locations().kept_copy(object, name)?;
        self.drop_own(background(copy, Op::Remove)?).await?;
        self.drop_notes(object, std::slice::from_ref(name)).await
    }

    /// Reads the copy of an object that had this `stat`.
    pub(super) async fn read_kept_copy(
        &self,
        header: &IoHeader,
        ops: Vec<Op>,
        name: &SnapshotName,
        stat: ObjectStat,
    ) -> Result<Reply> {
        let object = &header.object;
        let copy = self.locations().kept_copy(object, name)?;
        let ops = ops_on_copy(ops, stat).map_err(|error| error.on(object))?;
        let exists = Op::AssertExists;
        let ops = std::iter::once(exists.clone()).chain(ops).collect();
        match self.base().submit(with_ops_on(copy, header, ops)?).await {
            Ok(mut reply) => {
                reply.results.remove(0);
                Ok(reply_of_copied(reply, stat))
            }
            Err(error) if error.operation() == Some(exists.name()) => Err(Error::corrupt(format!(
                "the copy of the object at the snapshot {name} is lost"
            ))
            .on(object)
            .hint("read the object at another snapshot")),
            Err(error) => Err(error_about(object, &error)),
        }
    }
}

/// What a read of an object asks its copy. The copy has a version of its own.
///
/// # Errors
/// `Conflict` if the object had another version than the read expects.
fn ops_on_copy(ops: Vec<Op>, stat: ObjectStat) -> Result<Vec<Op>> {
    let on_copy = |op| match op {
        Op::AssertVersion(version) if version != stat.version => {
            let text = format!("the object had version {}, not {version}", stat.version);
            Err(Error::conflict(text).during("assert-version"))
        }
        Op::AssertVersion(_) => Ok(Op::AssertExists),
        op => Ok(op),
    };
    ops.into_iter().map(on_copy).collect()
}

/// The reply of an object that had this `stat`, made of the reply of its copy.
fn reply_of_copied(reply: Reply, stat: ObjectStat) -> Reply {
    let of_object = |result| match result {
        OpResult::Stat(_) => OpResult::Stat(stat),
        result => result,
    };
    let results = reply.results.into_iter().map(of_object).collect();
    Reply { version: stat.version, results }
}

/// The error of an object, made of the error of its copy, of which clients know nothing.
fn error_about(object: &ObjectId, error: &Error) -> Error {
    let mut about = Error::new(error.kind(), error.message()).on(object);
    if let Some(operation) = error.operation() {
        about = about.during(operation.to_owned());
    }
    match error.hint_text() {
        Some(hint) => about.hint(hint),
        None => about,
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    const STAT: ObjectStat = ObjectStat { size: 3, modified_micros: 77, version: 5 };

    #[test]
    fn a_copy_answers_with_the_stat_and_the_version_of_the_object() {
        let ops = vec![Op::AssertVersion(5), Op::Stat];
        assert_eq!(ops_on_copy(ops, STAT).unwrap(), [Op::AssertExists, Op::Stat]);
        let other = ops_on_copy(vec![Op::AssertVersion(1)], STAT).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Conflict);
        let own = ObjectStat { size: 3, modified_micros: 99, version: 1 };
        let reply = Reply { version: 1, results: vec![OpResult::Done, OpResult::Stat(own)] };
        let expected = Reply { version: 5, results: vec![OpResult::Done, OpResult::Stat(STAT)] };
        assert_eq!(reply_of_copied(reply, STAT), expected);
    }

    #[test]
    fn an_error_is_about_the_object_and_not_about_its_copy() {
        let error = Error::not_found("no such attribute").during("get-attribute");
        let error = error.on("nacre.routed/kept:monday/data/a").hint("look at the names");
        let about = error_about(&"data/a".parse().unwrap(), &error);
        assert_eq!(about.object(), Some("data/a"));
        assert_eq!(about.operation(), Some("get-attribute"));
        assert_eq!((about.kind(), about.hint_text()), (error.kind(), error.hint_text()));
    }
}
