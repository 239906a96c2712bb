//! Puts of more than one request: what readers see, and what is left.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, stream};
use nacre_conformance::{MemoryStore, ops};
use nacre_object::limits::MAX_REQUEST_BYTES;
use nacre_object::{Capabilities, Capability, Error, ErrorKind, Op, Result};

use crate::{Object, Pool};

/// Pieces of content; several make a part.
const PIECE: usize = 1_500_000;
const PIECES: usize = 9;
const _: () = assert!(PIECE * PIECES > MAX_REQUEST_BYTES + PIECE);

/// Makes an object with some content, in a store that can copy streams.
async fn object() -> Object {
    object_of(MemoryStore::plain()).await
}

/// An object of a store that cannot, as Ceph.
async fn object_in_place() -> Object {
    let all = Capabilities::all().without(Capability::Classes);
    let less = all.without(Capability::Clone).without(Capability::Snapshots);
    object_of(MemoryStore::plain().with_capabilities(less)).await
}

async fn object_of(store: MemoryStore) -> Object {
    let pool = Pool::on(Arc::new(store), "data".parse().unwrap());
    let object = pool.object("a").unwrap();
    object.submit(vec![ops::write_full("old"), ops::map_set([("k", "v")])]).await.unwrap();
    object
}

fn piece(number: usize) -> Bytes {
    (0..PIECE).map(|at| (at / 7 + number) as u8).collect()
}

fn pieces() -> impl Stream<Item = Result<Bytes>> + Unpin {
    stream::iter((0..PIECES).map(|number| Ok(piece(number))))
}

/// The pieces. `other` runs just before the piece with number `before`.
fn pieces_and<'a, F>(
    before: usize,
    other: impl Fn() -> F + Send + 'a,
) -> impl Stream<Item = Result<Bytes>> + Send + Unpin
where
    F: Future<Output = Result<()>> + Send + 'a,
{
    Box::pin(stream::iter(0..PIECES).then(move |number| {
        let happens = (number == before).then(&other);
        async move {
            if let Some(happens) = happens {
                happens.await?;
            }
            Ok(piece(number))
        }
    }))
}

fn whole() -> Bytes {
    (0..PIECES).flat_map(piece).collect()
}

async fn names(object: &Object) -> Vec<String> {
    let page = object.pool().list(None, "", 10).await.unwrap();
    page.names.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_put_replaces_the_whole_stream_atomically_and_nothing_else() {
    let object = object().await;
    let before = object.stat().await.unwrap().version;
    let is_as_before = || async {
        assert_eq!(object.read(0, 10).await?, "old");
        assert_eq!(object.stat().await?.version, before);
        Ok(())
    };
    object.put(pieces_and(PIECES - 1, is_as_before)).await.unwrap();
    assert!(object.read_all(0, None).await.unwrap() == whole());
    assert_eq!(object.map_get("k").await.unwrap().unwrap(), "v");
    assert_eq!(names(&object).await, ["a"], "nothing else is left");
}

#[tokio::test]
async fn a_put_that_fits_into_one_request_is_one_request() {
    for object in [object().await, object_in_place().await] {
        let content: Bytes = vec![7; MAX_REQUEST_BYTES].into();
        let before = object.stat().await.unwrap().version;
        object.put(stream::iter([Ok(content.clone())])).await.unwrap();
        assert!(object.read_all(0, None).await.unwrap() == content);
        assert_eq!(object.stat().await.unwrap().version, before + 1);
        object.put(stream::empty()).await.unwrap();
        assert_eq!(object.stat().await.unwrap().size, 0);
    }
}

#[tokio::test]
async fn a_put_whose_content_fails_changes_nothing() {
    let object = object().await;
    let fails = || async { Err(Error::unavailable("interrupted")) };
    let error = object.put(pieces_and(PIECES - 1, fails)).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Unavailable, "interrupted"));
    assert_eq!(object.read(0, 10).await.unwrap(), "old");
    assert_eq!(names(&object).await, ["a"], "nothing else is left");
}

#[tokio::test]
async fn of_two_concurrent_puts_the_later_wins_and_the_earlier_gets_conflict() {
    let object = object().await;
    let other: Bytes = vec![1; MAX_REQUEST_BYTES + 1].into();
    let put_other = || {
        let other = other.clone();
        async { object.put(stream::iter([Ok(other)])).await }.boxed()
    };
    let error = object.put(pieces_and(PIECES - 1, put_other)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("another put"), "{error}");
    assert!(object.read_all(0, None).await.unwrap() == other);
    assert_eq!(names(&object).await, ["a"], "nothing else is left");
}

#[tokio::test]
async fn a_put_removes_what_a_killed_put_left() {
    let object = object().await;
    let endless = pieces().chain(stream::pending());
    assert!(object.put(endless).now_or_never().is_none(), "it waits for more content");
    let staged = format!("{}.nacre-put.0", object.id().name);
    assert_eq!(names(&object).await, ["a", &staged]);
    let snapshot = Op::SnapshotCreate { snapshot: ops::snapshot("put-1") };
    object.pool().object(&staged).unwrap().submit(vec![snapshot]).await.unwrap();
    assert_eq!(object.read(0, 10).await.unwrap(), "old");

    object.put(pieces()).await.unwrap();
    assert!(object.read_all(0, None).await.unwrap() == whole());
    assert_eq!(names(&object).await, ["a"]);
}

#[tokio::test]
async fn a_put_in_place_tells_how_far_it_came_when_it_fails() {
    let object = object_in_place().await;
    object.put(pieces()).await.unwrap();
    assert!(object.read_all(0, None).await.unwrap() == whole());

    let fails = || async { Err(Error::unavailable("interrupted")) };
    let error = object.put(pieces_and(PIECES - 1, fails)).await.unwrap_err();
    let size = object.stat().await.unwrap().size;
    assert!(size >= MAX_REQUEST_BYTES as u64);
    assert!(error.hint_text().unwrap().contains(&format!("first {size} bytes")), "{error}");
}

#[tokio::test]
async fn a_put_in_place_ends_with_conflict_if_another_client_writes() {
    let object = object_in_place().await;
    let write = || async { object.write(0, "other").await };
    let error = object.put(pieces_and(PIECES - 1, write)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn large_content_needs_a_name_short_enough_for_the_staging_object() {
    let pool = object().await.pool().clone();
    let object = pool.object(&"n".repeat(1024)).unwrap();
    object.put(stream::iter([Ok(piece(0))])).await.unwrap();
    let error = object.put(pieces()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.hint_text().unwrap().contains("name of at most"), "{error}");
}
