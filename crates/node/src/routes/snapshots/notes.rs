//! The notes of an object: what a switch keeps of it under which names. They are keys in the map of an object
//! of the switch's own.
//!
//! | key | value |
//! | --- | --- |
//! | a name | empty: the object was absent; or a [`CopiedStat`] in JSON: there is a complete copy |
//!
//! On a storage node the engine knows its snapshots, so there are only notes of absence.

use bytes::Bytes;
use nacre_object::{
    Error, ErrorKind, MapEntry, ObjectId, ObjectStat, Op, OpResult, Request, Result, SnapshotName,
    Store,
};
use nacre_route::limits::MAX_SNAPSHOT_NAMES;
use serde::{Deserialize, Serialize};

use super::{KeptState, KnownStates};
use crate::routes::NodeSwitch;
use crate::routes::background::background;

/// More notes than an object has: one for each name of the rule, and some that are dropped next.
const MAX_NOTES: u32 = 4 * MAX_SNAPSHOT_NAMES as u32;

/// The `stat` of a copied object, which the copy cannot have itself.
#[derive(Debug, Serialize, Deserialize)]
struct CopiedStat {
    size: u64,
    modified_micros: u64,
    version: u64,
}

/// What is noted of an object at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    Absent,
    /// There is a complete copy of the object, which had this `stat`.
    Copied(ObjectStat),
}

impl Note {
    fn encode(self) -> Result<Bytes> {
        let Self::Copied(ObjectStat { size, modified_micros, version }) = self else {
            return Ok(Bytes::new());
        };
        let text = serde_json::to_vec(&CopiedStat { size, modified_micros, version });
        text.map(Bytes::from).map_err(|cause| Error::invalid(cause.to_string()))
    }

    fn decode(value: &[u8]) -> Result<Self> {
        if value.is_empty() {
            return Ok(Self::Absent);
        }
        let stat: CopiedStat = serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!("the note of a kept state is malformed: {cause}"))
                .hint("run one release of nacre on all nodes")
        })?;
        let CopiedStat { size, modified_micros, version } = stat;
        Ok(Self::Copied(ObjectStat { size, modified_micros, version }))
    }
}

fn key(name: &SnapshotName) -> Bytes {
    Bytes::copy_from_slice(name.as_str().as_bytes())
}

impl NodeSwitch {
    /// What the notes of an object say.
    pub(super) async fn noted_states(&self, object: &ObjectId) -> Result<KnownStates> {
        let notes = self.locations().snapshot_notes(object)?;
        let (after, prefix, limit) = (Bytes::new(), Bytes::new(), MAX_NOTES);
        let read = background(notes, Op::MapRange { after, prefix, limit })?;
        let entries = match self.base().submit(read).await {
            Err(error) if error.kind() == ErrorKind::NotFound => vec![],
            read => match read?.results.into_iter().next() {
                Some(OpResult::Range(range)) => range.entries,
                _ => {
                    return Err(
                        Error::corrupt("the reply to a read of keys has no keys").on(object)
                    );
                }
            },
        };
        let mut known = KnownStates::default();
        for MapEntry { key, value } in entries {
            let name = std::str::from_utf8(&key).ok().and_then(|name| name.parse().ok());
            let Some(name) = name else { continue };
            let state = match Note::decode(&value).map_err(|error| error.on(object))? {
                Note::Absent => KeptState::Absent,
                Note::Copied(stat) => KeptState::Copied(stat),
            };
            known.0.insert(name, state);
        }
        Ok(known)
    }

    /// Notes durably what is kept of an object under a name.
    pub(super) async fn note_state(
        &self,
        object: &ObjectId,
        name: &SnapshotName,
        note: Note,
    ) -> Result<()> {
        let notes = self.locations().snapshot_notes(object)?;
        let entries = vec![MapEntry { key: key(name), value: note.encode()? }];
        self.base().submit(background(notes, Op::MapSet { entries })?).await.map(drop)
    }

    /// Drops notes of an object. What they are about is dropped already.
    pub(super) async fn drop_notes(&self, object: &ObjectId, names: &[SnapshotName]) -> Result<()> {
        let notes = self.locations().snapshot_notes(object)?;
        let keys = names.iter().map(key).collect();
        if_present(self.base().submit(background(notes, Op::MapRemove { keys })?).await)
    }

    /// Drops the object with the notes of another object, none of which is left.
    pub(super) async fn drop_all_notes(&self, object: &ObjectId) -> Result<()> {
        let notes = self.locations().snapshot_notes(object)?;
        if_present(self.base().submit(background(notes, Op::Remove)?).await)
    }

    /// Drops an object that a switch has made for itself.
    pub(super) async fn drop_own(&self, request: Request) -> Result<()> {
        if_present(self.base().submit(request).await)
    }
}

/// The result of dropping something that may be gone already.
fn if_present<T>(dropped: Result<T>) -> Result<()> {
    match dropped {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        dropped => dropped.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_was_noted_and_an_empty_one_that_the_object_was_absent() {
        let stat = ObjectStat { size: 1 << 40, modified_micros: u64::MAX, version: 7 };
        for note in [Note::Absent, Note::Copied(stat)] {
            assert_eq!(Note::decode(&note.encode().unwrap()).unwrap(), note);
        }
        assert_eq!(Note::decode(b"").unwrap(), Note::Absent);
        let error = Note::decode(b"{}").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
