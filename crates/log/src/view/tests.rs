//! The steps from view to view.

use nacre_object::ErrorKind;

use super::{Layout, View};
use crate::limits::{MAX_COLUMNS, MAX_RANGES, MAX_WIDTH};
use crate::testing::{OneTarget, cut_at, node, view_of};

/// A view as release 0.1.0 stores it.
const SAMPLE: &str = include_str!("../../tests/samples/view_format_1.json");

#[test]
fn a_stored_view_of_format_1_is_still_read() {
    let view = View::decode(SAMPLE.as_bytes()).unwrap();
    let stored = view_of(2, 4).claimed_by(node("meta.0"), 0).extended(1).unwrap();
    let expected = cut_at(&stored, 13).forgetting_below(6);
    assert_eq!(view, expected);
    assert_eq!(View::decode(&expected.encode()).unwrap(), expected);
    assert_eq!(String::from_utf8(expected.encode()).unwrap(), SAMPLE.trim_end());
}

#[test]
fn a_stored_view_tells_claims_of_one_node_apart() {
    let claims = [1, u64::MAX].map(|claim| view_of(2, 4).claimed_by(node("a"), claim));
    assert_ne!(claims[0], claims[1]);
    for view in claims {
        assert_eq!(View::decode(&view.encode()).unwrap(), view);
    }
}

#[test]
fn a_log_made_again_under_a_removed_name_shares_no_object_with_the_removed_one() {
    let view = cut_at(&view_of(2, 4).claimed_by(node("a"), 1), 3);
    let removed = view.removed();
    assert_eq!((removed.sequencer(), removed.is_buried()), (None, false));
    let buried = removed.forgetting_below(removed.end());
    assert!(buried.is_removed() && buried.is_buried());
    let (pool, class) = ("log".parse().unwrap(), buried.class().clone());
    let next = buried.reborn(pool, class, view.layout(), &OneTarget, &[]).unwrap();
    assert_eq!((next.epoch(), next.born()), (buried.epoch() + 1, buried.epoch() + 1));
    assert_eq!(next.last_range().first, 0);
    // The removed log may have been opening a range. That range has the id in between.
    assert!(next.last_range().id > cut_at(&view, view.end()).last_range().id);
    for view in [removed, buried, next] {
        assert_eq!(View::decode(&view.encode()).unwrap(), view);
    }
}

#[test]
fn a_view_that_breaks_an_invariant_is_corrupt() {
    for (good, bad) in [
        (r#""epoch":5"#, r#""epoch":0"#),
        (r#""end":13"#, r#""end":12"#),
        (r#""id":1"#, r#""id":0"#),
        (r#""slots":4"#, r#""slots":0"#),
        (r#""columns":[0,0]"#, r#""columns":[]"#),
        (r#""log":"test""#, r#""log":"""#),
        ("}", ""),
    ] {
        assert!(SAMPLE.contains(good), "{good}");
        let error = View::decode(SAMPLE.replace(good, bad).as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{bad}: {error}");
    }
    let later = SAMPLE.replace(r#""format":1"#, r#""format":2"#);
    let error = View::decode(later.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_proposal_is_accepted_only_as_the_stored_epoch_plus_one() {
    let view = view_of(1, 1).claimed_by(node("a"), 1);
    let kind = |stored| nacre_host::check_proposal(stored, &view).map_err(|error| error.kind());
    assert_eq!(view.epoch(), 2);
    assert_eq!(kind(1), Ok(()));
    assert_eq!(kind(2), Err(ErrorKind::Stale));
    assert_eq!(kind(3), Err(ErrorKind::Stale));
    assert_eq!(kind(0), Err(ErrorKind::Invalid));
}

#[test]
fn every_change_of_a_view_is_one_epoch_and_moves_no_position_below_the_tail() {
    let first = view_of(2, 4);
    let second = first.extended(1).unwrap();
    let third = cut_at(&second, 11);
    let fourth = third.claimed_by(node("a"), 1);
    assert_eq!(fourth.epoch(), 4);
    for position in 0..11 {
        let places = [&second, &third, &fourth].map(|view| view.place(position));
        assert!(places.iter().all(|place| *place == places[0] && place.is_some()));
    }
    assert_eq!(fourth.place(11).map(|place| place.range), Some(1));
    assert_eq!((fourth.lowest_tail(), fourth.end()), (11, 19));
    assert_eq!(fourth.place(19), None);
}

#[test]
fn a_range_that_was_never_used_is_replaced() {
    let cut = cut_at(&cut_at(&view_of(2, 4), 0), 0);
    assert_eq!(cut.ranges().len(), 1);
    assert_eq!((cut.last_range().id, cut.last_range().first), (2, 0));
    assert_eq!(cut.epoch(), 3);
}

#[test]
fn a_cut_outside_of_the_last_range_or_out_of_bounds_is_refused() {
    let view = cut_at(&view_of(2, 4), 5);
    let kind = |tail, width| {
        let layout = Layout { width, slots: 4 };
        view.cut(tail, layout, &OneTarget, &[]).map_err(|error| error.kind()).err()
    };
    assert_eq!(kind(4, 2), Some(ErrorKind::Invalid));
    assert_eq!(kind(14, 2), Some(ErrorKind::Invalid));
    assert_eq!(kind(6, 0), Some(ErrorKind::Invalid));
    assert_eq!(kind(6, MAX_WIDTH + 1), Some(ErrorKind::Invalid));
    assert_eq!(kind(6, MAX_WIDTH), None);
}

#[test]
fn ranges_are_bounded_until_trimmed_ones_are_forgotten() {
    let mut view = view_of(1, 4);
    for tail in 1..MAX_RANGES as u64 {
        view = cut_at(&view, tail);
    }
    let full = view.cut(MAX_RANGES as u64, view.layout(), &OneTarget, &[]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Exhausted);
    let trimmed = view.forgetting_below(10);
    assert_eq!(trimmed.ranges().len(), MAX_RANGES - 10);
    assert_eq!((trimmed.place(9), trimmed.kept_from()), (None, 10));
    assert!(trimmed.place(10).is_some());
    assert_eq!(trimmed.forgetting_below(3).kept_from(), 10);
}

#[test]
fn columns_are_bounded_as_ranges_are() {
    let mut view = view_of(MAX_WIDTH, 4);
    let most = MAX_COLUMNS / MAX_WIDTH as usize;
    for tail in 1..most as u64 {
        assert_eq!(view.ranges_left(MAX_WIDTH), most - tail as usize);
        view = cut_at(&view, tail);
    }
    let narrow = Layout { width: 1, slots: 4 };
    for layout in [view.layout(), narrow] {
        let full = view.cut(most as u64, layout, &OneTarget, &[]).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Exhausted);
        assert_eq!(view.ranges_left(layout.width), 0);
    }
    // A range that was never used makes room for the next.
    assert_eq!(cut_at(&view, most as u64 - 1).ranges().len(), most);
    assert_eq!(View::decode(&view.encode()).unwrap(), view);
}
