//! Reads of several parts beside a writer.

use std::sync::Arc;

use bytes::Bytes;
use nacre_conformance::{MeddlingStore, MemoryStore, ops};
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES};
use nacre_object::{ErrorKind, ObjectId, Op, Request, Store};

use crate::{Object, Pool};

/// A stream that takes two requests to read.
const TWO_PARTS: usize = MAX_REPLY_BYTES + 1024 * 1024;

fn id() -> ObjectId {
    "data/a".parse().unwrap()
}

async fn object(content: Vec<Op>, before: impl IntoIterator<Item = usize>) -> Object {
    let store = MemoryStore::plain();
    for op in content {
        store.submit(Request::new(id(), vec![op]).unwrap()).await.unwrap();
    }
    let store = MeddlingStore::new(store, id(), before);
    Pool::on(Arc::new(store), id().pool).object("a").unwrap()
}

fn two_parts() -> Vec<Op> {
    let halves = Bytes::from(vec![b'x'; TWO_PARTS / 2]);
    vec![ops::append(halves.clone()), ops::append(halves)]
}

fn entries() -> Vec<Op> {
    let key = |number: usize| (format!("{number:05}"), "v");
    vec![ops::map_set((0..MAX_MAP_RANGE_ENTRIES + 10).map(key))]
}

#[tokio::test]
async fn a_reader_gets_every_part_of_an_object_that_nobody_changes() {
    let object = object(two_parts(), []).await;
    let mut reader = object.reader(0, None);
    let mut lengths = vec![];
    while let Some(part) = reader.next().await.unwrap() {
        lengths.push(part.len());
    }
    assert_eq!(lengths, [MAX_REPLY_BYTES, TWO_PARTS - MAX_REPLY_BYTES]);
    let tail = object.read_all(TWO_PARTS as u64 - 3, None).await.unwrap();
    assert_eq!(tail, "xxx");
    assert_eq!(object.read_all(5, Some(2)).await.unwrap(), "xx");
    assert_eq!(object.read_all(TWO_PARTS as u64 + 5, Some(2)).await.unwrap(), "");
}

#[tokio::test]
async fn a_reader_gets_no_part_of_another_version() {
    for change in [ops::write(0, "new"), ops::map_set([("k", "v")]), Op::Remove] {
        let object = object(two_parts(), []).await;
        let mut reader = object.reader(0, None);
        reader.next().await.unwrap().unwrap();
        object.submit(vec![change.clone()]).await.unwrap();
        let error = reader.next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{change:?}: {error}");
        assert!(error.message().contains("changed while it was read"), "{error}");
    }
}

#[tokio::test]
async fn a_reader_of_a_snapshot_is_not_disturbed_by_changes_of_the_object() {
    let object = object(two_parts(), []).await;
    let snapshot = ops::snapshot("s");
    object.snapshot(snapshot.clone()).await.unwrap();
    let mut reader = object.at(snapshot).reader(0, None);
    reader.next().await.unwrap().unwrap();
    object.write_full("new").await.unwrap();
    let rest = reader.next().await.unwrap().unwrap();
    assert_eq!(rest.len(), TWO_PARTS - MAX_REPLY_BYTES);
}

#[tokio::test]
async fn a_whole_read_begins_again_when_the_object_was_changed() {
    let object = object(two_parts(), [1, 3]).await;
    let all = object.read_all(0, None).await.unwrap();
    assert_eq!((all.len(), &all[..2]), (TWO_PARTS, &b"3x"[..]), "the last change is in it");
}

#[tokio::test]
async fn a_whole_read_of_an_object_that_always_changes_ends_with_conflict() {
    let object = object(two_parts(), 0..1000).await;
    let error = object.read_all(0, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn a_map_reader_gets_every_page_of_one_version() {
    let object = object(entries(), []).await;
    let mut reader = object.map_reader("", "");
    let mut keys = vec![];
    while let Some(page) = reader.next(usize::MAX).await.unwrap() {
        keys.extend(page.entries.into_iter().map(|entry| entry.key));
    }
    assert_eq!(keys.len(), MAX_MAP_RANGE_ENTRIES + 10);
    assert!(keys.is_sorted());
}

#[tokio::test]
async fn a_map_reader_gets_no_page_of_another_version() {
    for change in [ops::map_set([("k", "v")]), ops::write(0, "new"), Op::Remove] {
        let object = object(entries(), []).await;
        let mut reader = object.map_reader("", "");
        assert!(reader.next(usize::MAX).await.unwrap().unwrap().more);
        object.submit(vec![change.clone()]).await.unwrap();
        let error = reader.next(usize::MAX).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{change:?}: {error}");
    }
}
