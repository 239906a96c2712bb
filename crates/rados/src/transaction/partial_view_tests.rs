//! Tests which RADOS operations a transaction leads to, whatever its methods do.

use bytes::Bytes;
use nacre_object::limits::MAX_OPS;
use nacre_object::{ErrorKind, ObjectView};
use nacre_rados_layout::escape_key;

use crate::ffi::{Change, Fetch, Fetched, MAX_PARTS};
use crate::transaction::image::Image;
use crate::transaction::missing::MAX_MISSES;
use crate::transaction::partial_view::{Outcome, PartialView};

/// An object that exists and of which nothing else was fetched.
fn unknown(size: u64) -> Image {
    let mut image = Image::default();
    image.version = 1;
    image.learn(&[Fetch::Stat], vec![Fetched::Stat { size, modified_seconds: 0 }]).unwrap();
    image
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn changes(view: PartialView<'_>) -> Vec<Change> {
    match view.finish() {
        Outcome::Done { changes, .. } => changes,
        lacks @ Outcome::Lacks(_) => panic!("{lacks:?}"),
    }
}

#[test]
fn only_the_final_state_of_a_map_is_written() {
    let image = unknown(0);
    let mut view = PartialView::new(&image);
    for number in 0..35_000 {
        view.map_set(&key(number), Bytes::from_static(b"value")).unwrap();
        view.map_remove(&key(number + 1)).unwrap();
    }
    view.set_map_header(Bytes::from_static(b"header")).unwrap();
    match &changes(view)[..] {
        [Change::AssertVersion(1), Change::RemoveKeys(removed), Change::SetKeys(set)] => {
            assert_eq!((removed.len(), set.len()), (1, 35_001));
        }
        changes => panic!("{} changes", changes.len()),
    }
}

#[test]
fn a_cleared_map_is_cleared_once_before_it_is_written() {
    let image = unknown(0);
    let mut view = PartialView::new(&image);
    for number in 0..35_000 {
        view.map_set(&key(number), Bytes::new()).unwrap();
        view.map_clear().unwrap();
    }
    view.map_set(b"k", Bytes::new()).unwrap();
    view.map_remove(b"l").unwrap();
    let set = Change::SetKeys(vec![(escape_key(b"k").into(), Bytes::new())]);
    let expected = [Change::AssertVersion(1), Change::ClearMap, Change::Create, set];
    assert_eq!(changes(view), expected);
}

#[test]
fn an_object_made_anew_has_nothing_of_the_removed_one() {
    let image = unknown(0);
    let mut view = PartialView::new(&image);
    view.map_set(b"before", Bytes::new()).unwrap();
    view.remove().unwrap();
    view.create(true).unwrap();
    view.map_clear().unwrap();
    view.map_remove(b"before").unwrap();
    view.map_set(b"after", Bytes::new()).unwrap();
    let set = Change::SetKeys(vec![(escape_key(b"after").into(), Bytes::new())]);
    let expected = [Change::AssertVersion(1), Change::Remove, Change::Create, set];
    assert_eq!(changes(view), expected);
}

#[test]
fn missing_keys_are_fetched_together_in_bounded_numbers() {
    let image = unknown(0);
    let mut view = PartialView::new(&image);
    for number in 0..70_000 {
        view.map_get(&key(number / 2)).unwrap_err();
        view.map_header().unwrap_err();
    }
    match view.finish() {
        Outcome::Lacks(fetches) => match &fetches[..] {
            [Fetch::Keys(keys)] => assert_eq!(keys.len(), MAX_MISSES),
            fetches => panic!("{} parts", fetches.len()),
        },
        done @ Outcome::Done { .. } => panic!("{done:?}"),
    }
}

#[test]
fn missing_parts_are_fetched_once_in_bounded_numbers() {
    let image = unknown(1 << 20);
    let mut view = PartialView::new(&image);
    for offset in 0..70_000 {
        view.read(offset, 1).unwrap_err();
        view.attributes().unwrap_err();
    }
    match view.finish() {
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
    let mut view = PartialView::new(&image);
    let data = Bytes::from_static(b"x");
    let step = |view: &mut PartialView<'_>| {
        view.append(data.clone())?;
        view.set_attribute("name", data.clone())
    };
    let refused = (0..MAX_PARTS).find_map(|_| step(&mut view).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
    let size = view.stat().unwrap().size;
    view.append(data.clone()).unwrap_err();
    view.truncate(0).unwrap_err();
    view.map_set(b"key", data).unwrap_err();
    assert_eq!(view.stat().unwrap().size, size, "what is refused does nothing");
    let changes = changes(view).len();
    assert!((MAX_OPS..=MAX_PARTS).contains(&changes), "{changes}");
}
