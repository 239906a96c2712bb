//! What happens to objects whose positions are all given up: they are buried, sealed at the last epoch with no
//! entry left. A header of some bytes stays, so that nothing that comes late brings them to life again.

use futures::StreamExt;
use futures::stream;
use nacre_object::{ClassName, Error, ObjectId, Result};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::limits::MAX_BURIALS;
use crate::storage::{Addressed, CallFailure, LAST_EPOCH, StorageClient};
use crate::view::View;

/// Buries the objects of `before` that lie wholly below `position`, which is forgotten.
pub(super) async fn bury_below(
    storage: &StorageClient,
    before: &View,
    position: u64,
    deadline: Instant,
) -> Result<()> {
    let ranges = before.ranges().iter();
    let stripes = ranges.flat_map(|range| {
        // Those that were forgotten earlier are buried.
        let first = before.kept_from().max(range.first);
        let gone = first.saturating_sub(range.first) / range.stripe_positions();
        let ends = range.stripes_before(position);
        let whole = move |stripe: &u64| range.stripe_end(*stripe) <= position;
        (gone..ends).filter(whole).flat_map(move |stripe| {
            let last = range.stripe_end(stripe) - 1;
            range.stripe_places(stripe).map(move |place| (place, last))
        })
    });
    // Made before anything is waited for, so that the future can move between threads.
    let objects: Vec<_> =
        stripes.filter_map(|(place, last)| Some((before.object(place)?, last))).collect();
    let class = before.class();
    let burials =
        objects.into_iter().map(|(object, last)| bury(storage, object, class, last, deadline));
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
    last: u64,
    deadline: Instant,
) -> Result<()> {
    let mut backoff = Backoff::new();
    loop {
        let to = Addressed { object: &object, class, epoch: LAST_EPOCH };
        match storage.bury(to, last).await {
            Ok(()) => return Ok(()),
            Err(CallFailure::Failed(error)) => return Err(error),
            Err(failure) if Instant::now() >= deadline => return Err(give_up(failure)),
            Err(_) => backoff.wait().await,
        }
    }
}

/// The error of a call that was tried until now.
pub(super) fn give_up(failure: CallFailure) -> Error {
    match failure {
        CallFailure::NoAnswer(error) | CallFailure::Failed(error) => error,
        CallFailure::Stale => Error::unavailable("the log's view is changing"),
        CallFailure::Unsealed => Error::corrupt("an object of the log is gone"),
    }
}
