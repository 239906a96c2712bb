//! What is done to single positions besides reading and appending: fill and trim.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use nacre_object::{Error, ObjectId, Result, Status};
use tokio::time::Instant;

use super::view_cache::ViewCache;
use crate::backoff::Backoff;
use crate::limits::MAX_REMOVALS;
use crate::storage::status::EROFS;
use crate::storage::{Addressed, CallFailure, CallResult, MAX_BATCH_ENTRIES, StorageClient};
use crate::view::{Place, View};

#[derive(Debug, Clone)]
pub(super) struct Positions {
    pub views: Arc<ViewCache>,
    pub storage: StorageClient,
}

impl Positions {
    /// Fills a position; answers false if it holds data.
    pub async fn fill(&self, position: u64, deadline: Instant) -> Result<bool> {
        let done = self.at_position(position, Operation::Fill(&[position]), deadline).await?;
        match done.as_ref().map(|done| done.statuses.first()) {
            // Forgotten as trimmed, and a trimmed position can be filled.
            None => Ok(true),
            Some(Some(0)) => Ok(true),
            Some(Some(&EROFS)) => Ok(false),
            Some(_) => Err(Error::corrupt(format!("the entry at {position} is damaged"))),
        }
    }

    /// Fills whichever of some positions, which were all issued, hold no data.
    pub async fn fill_all(&self, positions: &[u64], deadline: Instant) -> Result<()> {
        let view = self.views.get();
        let mut by_place: BTreeMap<Place, Vec<u64>> = BTreeMap::new();
        for position in positions {
            if let Some(place) = view.place(*position) {
                by_place.entry(place).or_default().push(*position);
            }
        }
        let batches = by_place.iter().flat_map(|(place, positions)| {
            positions.chunks(MAX_BATCH_ENTRIES).map(|positions| (*place, positions))
        });
        let fills =
            batches.map(|(place, positions)| self.at(place, Operation::Fill(positions), deadline));
        join_all(fills).await.into_iter().try_for_each(|done| done.map(drop))
    }

    pub async fn trim(&self, position: u64, deadline: Instant) -> Result<()> {
        self.at_position(position, Operation::Trim(position), deadline).await.map(drop)
    }

    /// Trims up to `position` what shares a stripe with it, and reclaims the space.
    pub async fn trim_stripe(&self, position: u64, deadline: Instant) -> Result<()> {
        let view = self.views.get();
        let Some(range) = view.range_of(position) else { return Ok(()) };
        for place in range.stripe_places(range.place(position).stripe) {
            // Each call removes a bounded number of entries.
            let is_left = |done: Option<Done>| done.is_some_and(|done| done.is_left);
            while is_left(self.at(place, Operation::TrimTo(position), deadline).await?) {}
        }
        Ok(())
    }

    /// Removes the objects of `before` that lie wholly below `position`, which is forgotten.
    pub async fn remove_below(
        &self,
        before: &View,
        position: u64,
        deadline: Instant,
    ) -> Result<()> {
        let ranges = before.ranges().iter();
        let stripes = ranges.flat_map(|range| {
            // Those that were forgotten earlier are gone.
            let first = before.kept_from().max(range.first);
            let gone = first.saturating_sub(range.first) / range.stripe_positions();
            let ends = range.stripes_before(position);
            let whole = move |stripe: &u64| range.stripe_end(*stripe) <= position;
            (gone..ends).filter(whole).flat_map(|stripe| range.stripe_places(stripe))
        });
        let objects = stripes.filter_map(|place| before.object(place));
        let removals = objects.map(|object| self.remove(object, deadline));
        let mut running = stream::iter(removals).buffer_unordered(MAX_REMOVALS);
        while let Some(removed) = running.next().await {
            removed?;
        }
        Ok(())
    }

    async fn remove(&self, object: ObjectId, deadline: Instant) -> Result<()> {
        let mut backoff = Backoff::new();
        loop {
            match self.storage.remove(&object).await {
                Ok(()) => return Ok(()),
                Err(CallFailure::Failed(error)) => return Err(error),
                Err(failure) if Instant::now() >= deadline => return Err(give_up(failure)),
                Err(_) => backoff.wait().await,
            }
        }
    }

    /// Runs an operation where a position lives; `None` if that is forgotten as trimmed.
    async fn at_position(
        &self,
        position: u64,
        operation: Operation<'_>,
        deadline: Instant,
    ) -> Result<Option<Done>> {
        loop {
            let Some(place) = self.place(position).await? else { return Ok(None) };
            let done = self.at(place, operation, deadline).await?;
            // The tail is not issued yet: meanwhile it may have got another place.
            if position < self.views.final_below()
                || self.views.read_now().await?.place(position) == Some(place)
            {
                return Ok(done);
            }
        }
    }

    /// The place of a position; `None` if it is forgotten as trimmed.
    async fn place(&self, position: u64) -> Result<Option<Place>> {
        let mut view = self.views.get();
        if position >= view.end() {
            view = self.views.later_than(view.epoch()).await?;
        }
        match view.place(position) {
            _ if position < view.kept_from() => Ok(None),
            None => Err(Error::invalid(format!("position {position} has no object yet"))
                .hint("it is past the tail")),
            place => Ok(place),
        }
    }

    /// Runs an operation on the object of a place until it answers; `None` if the place is
    /// forgotten as trimmed.
    async fn at(
        &self,
        place: Place,
        operation: Operation<'_>,
        deadline: Instant,
    ) -> Result<Option<Done>> {
        let mut backoff = Backoff::new();
        loop {
            let view = self.views.get();
            let object = match view.object(place) {
                Some(object) if !view.is_forgotten(place) => object,
                _ => return Ok(None),
            };
            let to = Addressed { object: &object, class: view.class(), epoch: view.epoch() };
            let failure = match self.run(operation, to).await {
                Ok(done) => return Ok(Some(done)),
                Err(CallFailure::Failed(error)) => return Err(error),
                Err(failure) => failure,
            };
            if Instant::now() >= deadline {
                return Err(give_up(failure));
            }
            let is_later = match failure {
                CallFailure::NoAnswer(_) => false,
                _ => self.views.later_than(view.epoch()).await?.epoch() > view.epoch(),
            };
            if !is_later {
                backoff.wait().await;
            }
        }
    }

    async fn run(&self, operation: Operation<'_>, to: Addressed<'_>) -> CallResult<Done> {
        match operation {
            Operation::Fill(positions) => {
                let statuses = self.storage.fill(to, positions).await?;
                Ok(Done { statuses, is_left: false })
            }
            Operation::Trim(position) => {
                self.storage.trim(to, position).await?;
                Ok(Done::default())
            }
            Operation::TrimTo(position) => {
                let is_left = self.storage.trim_to(to, position).await?;
                Ok(Done { statuses: vec![], is_left })
            }
        }
    }
}

/// What is done to an object.
#[derive(Debug, Clone, Copy)]
enum Operation<'a> {
    Fill(&'a [u64]),
    Trim(u64),
    TrimTo(u64),
}

/// What came of it.
#[derive(Debug, Default)]
struct Done {
    /// Of a fill, one a position.
    statuses: Vec<Status>,
    /// Of a trim limit: whether entries are left to be reclaimed.
    is_left: bool,
}

fn give_up(failure: CallFailure) -> Error {
    match failure {
        CallFailure::NoAnswer(error) | CallFailure::Failed(error) => error,
        CallFailure::Stale => Error::unavailable("the log's view is changing"),
        CallFailure::Unsealed => Error::corrupt("an object of the log is gone"),
    }
}
