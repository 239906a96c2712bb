//! Buries the objects of a removed log: seals them at the last epoch and removes all entries. Each
//! object keeps a header of some bytes, because a late request could create a missing object again.

use futures::StreamExt;
use futures::stream;
use nacre_host::Backoff;
use nacre_object::{ClassName, ObjectId, Result};
use tokio::time::Instant;

use crate::limits::MAX_BURIALS;
use crate::storage::{Addressed, CallFailure, StorageClient};
use crate::view::{EntryLocation, View};

/// The objects that hold positions up to and including `position`, named by range, stripe and
/// column ([`EntryLocation`]). Each object comes with the last of these positions in its stripe. Stripes
/// that the view has forgotten are left out, because their objects were buried before.
pub(super) fn places_to(view: &View, position: u64) -> Vec<(EntryLocation, u64)> {
    let places = view.ranges().iter().flat_map(|range| {
        let kept_from = view.kept_from().max(range.first);
        let forgotten = (kept_from - range.first) / range.stripe_positions();
        (forgotten..range.stripes_before(position + 1)).flat_map(move |stripe| {
            let last = position.min(range.stripe_end(stripe) - 1);
            range.stripe_places(stripe).map(move |place| (place, last))
        })
    });
    places.collect()
}

/// Buries the objects of a log that was removed.
pub(super) async fn bury_all(
    storage: &StorageClient,
    removed: &View,
    deadline: Instant,
) -> Result<()> {
    // This list is made before the first await, so that the future can move between threads.
    let places = places_to(removed, removed.end() - 1).into_iter();
    let objects: Vec<_> =
        places.filter_map(|(place, last)| Some((removed.object(place)?, last))).collect();
    let (class, epoch) = (removed.class(), removed.epoch());
    let burials = objects
        .into_iter()
        .map(|(object, last)| bury(storage, object, class, epoch, last, deadline));
    let mut running = stream::iter(burials).buffer_unordered(MAX_BURIALS);
    while let Some(buried) = running.next().await {
        buried?;
    }
    Ok(())
}

async fn bury(
    storage: &StorageClient,
    object: ObjectId,
    class: &ClassName,
    epoch: u64,
    last: u64,
    deadline: Instant,
) -> Result<()> {
    let mut backoff = Backoff::new();
    loop {
        let to = Addressed { object: &object, class, epoch };
        match storage.bury(to, last).await {
            Ok(()) => return Ok(()),
            Err(CallFailure::Failed(error)) => return Err(error),
            Err(failure) if Instant::now() >= deadline => return Err(failure.into_error(object)),
            Err(_) => backoff.wait().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cut_at, view_of};

    /// A view with stripes of eight positions. Its first range ends at 13, within the second
    /// stripe, and another range follows.
    fn two_ranges() -> View {
        cut_at(&view_of(2, 4).extended(1).unwrap(), 13)
    }

    fn found(view: &View, position: u64) -> Vec<(u32, u64, u64)> {
        let places = places_to(view, position).into_iter();
        let first_columns = places.filter(|(place, _)| place.column == 0);
        first_columns.map(|(place, last)| (place.range, place.stripe, last)).collect()
    }

    #[test]
    fn every_object_is_found_with_the_last_position_that_it_may_hold() {
        let view = two_ranges();
        assert_eq!(found(&view, 0), [(0, 0, 0)]);
        assert_eq!(found(&view, 7), [(0, 0, 7)]);
        assert_eq!(found(&view, 8), [(0, 0, 7), (0, 1, 8)]);
        assert_eq!(found(&view, 20), [(0, 0, 7), (0, 1, 12), (1, 0, 20)]);
        assert_eq!(places_to(&view, 20).len(), 6, "of both columns");
    }

    #[test]
    fn a_stripe_that_is_forgotten_is_not_found_again() {
        assert_eq!(found(&two_ranges().forgetting_below(8), 20), [(0, 1, 12), (1, 0, 20)]);
        assert_eq!(found(&two_ranges().forgetting_below(13), 20), [(1, 0, 20)]);
    }
}
