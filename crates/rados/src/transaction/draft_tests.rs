//! What a transaction comes to as operations of RADOS, whatever its methods ask for.

use bytes::Bytes;
use nacre_object::limits::MAX_OPS;
use nacre_object::{ErrorKind, ObjectView};
use nacre_rados_layout::escape_key;

use crate::ffi::{Change, Fetch, Fetched, MAX_PARTS};
use crate::transaction::draft::{Draft, Outcome};
use crate::transaction::image::Image;
use crate::transaction::missing::MAX_MISSES;

/// An object that is there, of which no more is known.
fn unknown(size: u64) -> Image {
    let mut image = Image::default();
    image.version = 1;
    image.learn(&[Fetch::Stat], vec![Fetched::Stat { size, modified_seconds: 0 }]).unwrap();
    image
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn changes(draft: Draft<'_>) -> Vec<Change> {
    match draft.finish() {
        Outcome::Done { changes, .. } => changes,
        lacks @ Outcome::Lacks(_) => panic!("{lacks:?}"),
    }
}

#[test]
fn a_map_is_written_as_it_is_in_the_end() {
    let image = unknown(0);
    let mut draft = Draft::new(&image);
    for number in 0..35_000 {
        draft.map_set(&key(number), Bytes::from_static(b"value")).unwrap();
        draft.map_remove(&key(number + 1)).unwrap();
    }
    draft.set_map_header(Bytes::from_static(b"header")).unwrap();
    match &changes(draft)[..] {
        [Change::AssertVersion(1), Change::RemoveKeys(removed), Change::SetKeys(set)] => {
            assert_eq!((removed.len(), set.len()), (1, 35_001));
        }
        changes => panic!("{} changes", changes.len()),
    }
}

#[test]
fn a_map_that_is_cleared_is_cleared_once_and_before_it_is_written() {
    let image = unknown(0);
    let mut draft = Draft::new(&image);
    for number in 0..35_000 {
        draft.map_set(&key(number), Bytes::new()).unwrap();
        draft.map_clear().unwrap();
    }
    draft.map_set(b"k", Bytes::new()).unwrap();
    draft.map_remove(b"l").unwrap();
    let set = Change::SetKeys(vec![(escape_key(b"k").into(), Bytes::new())]);
    let expected = [Change::AssertVersion(1), Change::ClearMap, Change::Create, set];
    assert_eq!(changes(draft), expected);
}

#[test]
fn what_an_object_has_after_it_was_removed_is_all_it_has() {
    let image = unknown(0);
    let mut draft = Draft::new(&image);
    draft.map_set(b"before", Bytes::new()).unwrap();
    draft.remove().unwrap();
    draft.create(true).unwrap();
    draft.map_clear().unwrap();
    draft.map_remove(b"before").unwrap();
    draft.map_set(b"after", Bytes::new()).unwrap();
    let set = Change::SetKeys(vec![(escape_key(b"after").into(), Bytes::new())]);
    let expected = [Change::AssertVersion(1), Change::Remove, Change::Create, set];
    assert_eq!(changes(draft), expected);
}

#[test]
fn keys_that_are_missing_are_fetched_together_and_some_at_a_time() {
    let image = unknown(0);
    let mut draft = Draft::new(&image);
    for number in 0..70_000 {
        draft.map_get(&key(number / 2)).unwrap_err();
        draft.map_header().unwrap_err();
    }
    match draft.finish() {
        Outcome::Lacks(fetches) => match &fetches[..] {
            [Fetch::Keys(keys)] => assert_eq!(keys.len(), MAX_MISSES),
            fetches => panic!("{} parts", fetches.len()),
        },
        done @ Outcome::Done { .. } => panic!("{done:?}"),
    }
}

#[test]
fn parts_that_are_missing_are_fetched_once_and_some_at_a_time() {
    let image = unknown(1 << 20);
    let mut draft = Draft::new(&image);
    for offset in 0..70_000 {
        draft.read(offset, 1).unwrap_err();
        draft.attributes().unwrap_err();
    }
    match draft.finish() {
        Outcome::Lacks(fetches) => {
            let attributes = fetches.iter().filter(|fetch| **fetch == Fetch::Attributes);
            assert_eq!((fetches.len(), attributes.count()), (MAX_MISSES, 1));
        }
        done @ Outcome::Done { .. } => panic!("{done:?}"),
    }
}

#[test]
fn more_changes_than_an_operation_may_have_are_refused() {
    let mut image = unknown(0);
    image.learn(&[Fetch::Attributes], vec![Fetched::Attributes(vec![])]).unwrap();
    let mut draft = Draft::new(&image);
    let data = Bytes::from_static(b"x");
    let step = |draft: &mut Draft<'_>| {
        draft.append(data.clone())?;
        draft.set_attribute("name", data.clone())
    };
    let refused = (0..MAX_PARTS).find_map(|_| step(&mut draft).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
    let size = draft.stat().unwrap().size;
    draft.append(data.clone()).unwrap_err();
    draft.truncate(0).unwrap_err();
    draft.map_set(b"key", data).unwrap_err();
    assert_eq!(draft.stat().unwrap().size, size, "what is refused does nothing");
    let changes = changes(draft).len();
    assert!((MAX_OPS..=MAX_PARTS).contains(&changes), "{changes}");
}
