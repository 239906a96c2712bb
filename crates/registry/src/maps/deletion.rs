//! The method `delete` of the class `map`.
//!
//! The method removes a map's entries and history. The object stays, and its head records the epoch
//! that the deletion began. A new map of the same name continues from that epoch, so a watcher of
//! the deleted map learns that its content is gone. The object also remembers which triggers of
//! other maps were committed to it, so that none is carried out twice.
//!
//! **Invariant:** the epoch of a map never decreases, even if the map is deleted and made again.

use bytes::Bytes;
use nacre_object::{CallContext, CallReply, Error, MapName, ObjectView, Result};

use super::class::answer;
use super::format::{DeleteReply, DeleteRequest, Head};
use super::object::MapObject;
use super::own::check_deletable;
use crate::limits::MAX_COMMIT_ID_BYTES;
use crate::system::decode_input;

/// Deletes the map. Fails if a program is bound to the map, or if commits that the map triggered
/// wait to be carried out.
pub(super) fn delete(
    input: Bytes,
    view: &mut dyn ObjectView,
    _: &CallContext,
) -> Result<CallReply> {
    let request: DeleteRequest = decode_input(input)?;
    check(&request)?;
    let mut map = MapObject::open(view)?;
    if map.head.deletion_id != request.commit_id {
        check_unused(&request, &map)?;
        map.delete(request.commit_id)?;
    }
    let reply = DeleteReply { epoch: map.head.epoch };
    map.save()?;
    answer(&reply)
}

/// The error of a map that is not there.
pub(super) fn no_such_map(map: &str) -> Error {
    Error::not_found(format!("there is no map {map}")).hint("see all maps with `nacre map ls`")
}

fn check(request: &DeleteRequest) -> Result<()> {
    // Only checks that the name in the request is well formed. A class cannot see on which object
    // it runs; the check of the caller's rights compares this name with the object's.
    MapName::new(&request.map)?;
    check_deletable(&request.map)?;
    match request.commit_id.len() {
        1..=MAX_COMMIT_ID_BYTES => Ok(()),
        bytes => Err(Error::invalid(format!("the id of a deletion cannot have {bytes} bytes"))
            .hint(format!("use 1 to {MAX_COMMIT_ID_BYTES} bytes"))),
    }
}

fn check_unused(request: &DeleteRequest, map: &MapObject) -> Result<()> {
    let name = &request.map;
    if !map.is_there() {
        return Err(no_such_map(name));
    }
    let Head { epoch, pending_triggers, program, .. } = &map.head;
    if let Some(expected) = request.expected_epoch.filter(|expected| expected != epoch) {
        return Err(Error::conflict(format!("the map is at epoch {epoch}, not {expected}"))
            .hint("read the map again, then try again"));
    }
    if program.is_some() {
        return Err(Error::conflict(format!("the program map/{name} is bound to the map"))
            .hint(format!("remove it first: nacre program rm map/{name} --force")));
    }
    if *pending_triggers > 0 {
        let text =
            format!("{pending_triggers} commits to other maps that this map triggered still wait");
        return Err(
            Error::unavailable(text).hint("try again once the other maps have accepted them")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nacre_conformance::MemoryObject;
    use nacre_object::{EntityName, ErrorKind};
    use prost::Message;

    use super::super::format::{BoundProgram, ChangeMessage, CommitRequest, Watermark};
    use super::super::{Change, class};
    use super::*;

    fn deleted(object: &mut MemoryObject, id: &'static [u8], expected: Option<u64>) -> Result<u64> {
        let context = CallContext { source: EntityName::local(), now_micros: 1 };
        let (map, commit_id) = ("a".to_owned(), Bytes::from_static(id));
        let request = DeleteRequest { map, commit_id, expected_epoch: expected };
        let reply = delete(request.encode_to_vec().into(), object, &context)?;
        Ok(DeleteReply::decode(reply.output).unwrap().epoch)
    }

    fn commit(object: &mut MemoryObject, changes: Vec<Change>) -> Result<()> {
        let context = CallContext { source: EntityName::local(), now_micros: 1 };
        let changes = changes.into_iter().map(ChangeMessage::from).collect();
        let request = CommitRequest { map: "a".into(), changes, ..CommitRequest::default() };
        class::commit(request.encode_to_vec().into(), object, &context).map(drop)
    }

    fn head(object: &mut MemoryObject) -> Head {
        MapObject::open(object).unwrap().head
    }

    #[test]
    fn a_map_made_again_is_empty_and_continues_the_epochs_of_the_deleted_one() {
        let mut object = MemoryObject::default();
        commit(&mut object, vec![Change::set("k", "v")]).unwrap();
        let kept = Watermark { sequence: 7, epoch: 1 };
        let mut map = MapObject::open(&mut object).unwrap();
        map.set_watermark("other", &kept).unwrap();
        map.save().unwrap();

        assert_eq!(deleted(&mut object, b"id", Some(9)).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(deleted(&mut object, b"id", Some(1)).unwrap(), 2);
        assert_eq!(deleted(&mut object, b"id", Some(1)).unwrap(), 2, "the same one, sent again");
        assert_eq!(deleted(&mut object, b"other", None).unwrap_err().kind(), ErrorKind::NotFound);

        let mut map = MapObject::open(&mut object).unwrap();
        assert!(!map.is_there() && map.entries().unwrap().is_empty());
        assert!(map.records_after(0, 10).unwrap().is_empty(), "no history either");
        assert_eq!(map.watermark("other").unwrap(), Some(kept));

        commit(&mut object, vec![Change::set("n", "w")]).unwrap();
        let mut map = MapObject::open(&mut object).unwrap();
        assert!(map.is_there());
        assert_eq!((map.head.epoch, map.head.entries, map.entries().unwrap().len()), (3, 1, 1));
        assert_eq!(map.records_after(2, 10).unwrap().len(), 1);
    }

    #[test]
    fn deleting_a_map_in_use_is_refused() {
        let mut object = MemoryObject::default();
        assert_eq!(deleted(&mut object, b"id", None).unwrap_err().kind(), ErrorKind::NotFound);
        commit(&mut object, vec![Change::set("k", "v")]).unwrap();
        assert_eq!(deleted(&mut object, b"", None).unwrap_err().kind(), ErrorKind::Invalid);
        let unused = head(&mut object);
        let program = Some(BoundProgram { version: 1, digest: "d".into() });
        for (in_use, kind) in [
            (Head { program, ..unused.clone() }, ErrorKind::Conflict),
            (Head { pending_triggers: 1, last_trigger: 1, ..unused }, ErrorKind::Unavailable),
        ] {
            let mut map = MapObject::open(&mut object).unwrap();
            map.head = in_use;
            map.save().unwrap();
            assert_eq!(deleted(&mut object, b"id", None).unwrap_err().kind(), kind);
            assert_eq!(head(&mut object).entries, 1);
        }
    }

    #[test]
    fn a_commit_that_only_removes_keys_does_not_make_a_map() {
        let mut object = MemoryObject::default();
        let removal = || vec![Change::remove("k")];
        let error = commit(&mut object, removal()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(head(&mut object).epoch, 0);
        commit(&mut object, vec![Change::set("other", "v")]).unwrap();
        commit(&mut object, removal()).unwrap();
        assert_eq!(head(&mut object).epoch, 2);
    }
}
