//! Fills and trims positions.
//!
//! A *layout* says which object has each position. A new layout applies from the tail on, so a
//! position that the sequencer has not issued yet can move to another object. A client therefore
//! fills or trims a position only under a view whose sequencer has issued the position. For the
//! tail itself, the client first takes the position from the sequencer. If another sequencer takes
//! over meanwhile, the object refuses the operation, and the client reads the view again.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use nacre_host::Backoff;
use nacre_object::{Error, Result, Status};
use tokio::time::Instant;

use super::burial::places_to;
use super::view_cache::ViewCache;
use crate::limits::MAX_BURIALS;
use crate::sequencer::SequencerClient;
use crate::storage::status::EROFS;
use crate::storage::{Addressed, CallFailure, CallResult, MAX_BATCH_ENTRIES, StorageClient};
use crate::view::{EntryLocation, View};

#[derive(Debug, Clone)]
pub(super) struct Positions {
    pub views: Arc<ViewCache>,
    pub storage: StorageClient,
    pub sequencer: Arc<SequencerClient>,
}

impl Positions {
    /// Fills a position. Returns `false` if it holds data.
    ///
    /// # Errors
    /// `Invalid` past the tail; `Unavailable`.
    pub async fn fill(&self, position: u64, deadline: Instant) -> Result<bool> {
        let done = self.run(Operation::Fill(&[position]), deadline).await?;
        match done.statuses(position)? {
            // Trimmed or lost: neither takes data ever again.
            None => Ok(true),
            Some([0]) => Ok(true),
            Some([EROFS]) => Ok(false),
            Some(_) => {
                Err(Error::corrupt(format!("the log's entry at position {position} is damaged"))
                    .hint("`nacre scrub` says what is damaged; trim the position to skip it"))
            }
        }
    }

    /// Fills the given positions, in order, except those that hold data. Skips positions at or past
    /// the tail: the sequencer that issued them was replaced, and the new one may grant them to a
    /// writer.
    pub async fn fill_all(&self, positions: &[u64], deadline: Instant) -> Result<()> {
        let Some(view) = positions.last().and_then(|last| self.views.issued(*last)) else {
            return Ok(());
        };
        let mut by_place: BTreeMap<EntryLocation, Vec<u64>> = BTreeMap::new();
        for position in positions {
            if let Some(place) = view.place(*position) {
                by_place.entry(place).or_default().push(*position);
            }
        }
        let batches = by_place.values().flat_map(|positions| positions.chunks(MAX_BATCH_ENTRIES));
        let fills = batches.map(|positions| self.run(Operation::Fill(positions), deadline));
        join_all(fills).await.into_iter().try_for_each(|done| done.map(drop))
    }

    /// Trims a position.
    ///
    /// # Errors
    /// `Invalid` past the tail; `Unavailable`.
    pub async fn trim(&self, position: u64, deadline: Instant) -> Result<()> {
        self.run(Operation::Trim(position), deadline).await?.statuses(position).map(drop)
    }

    /// Trims everything up to `position`, which was issued before `view` was read. Frees the space.
    ///
    /// # Errors
    /// As for a single position. After an error some of the positions may be trimmed.
    pub async fn trim_to(&self, view: &View, position: u64, deadline: Instant) -> Result<()> {
        let places = places_to(view, position).into_iter();
        let trims: Vec<_> =
            places.map(|(place, last)| self.trim_place(place, last, deadline)).collect();
        let mut running = stream::iter(trims).buffer_unordered(MAX_BURIALS);
        while let Some(trimmed) = running.next().await {
            trimmed?;
        }
        Ok(())
    }

    async fn trim_place(&self, place: EntryLocation, last: u64, deadline: Instant) -> Result<()> {
        // Each call removes a bounded number of entries.
        while self.run(Operation::TrimTo(last, place), deadline).await?.is_left(last)? {}
        Ok(())
    }

    /// A view whose sequencer has issued `position`, or `None` past the tail. If `position` is the
    /// tail, takes it from the sequencer first.
    async fn issuing_view(&self, position: u64, deadline: Instant) -> Result<Option<Arc<View>>> {
        loop {
            if let Some(view) = self.views.issued(position) {
                return Ok(Some(view));
            }
            let tail = self.sequencer.readable_tail(deadline).await?;
            if position > tail {
                return Ok(None);
            }
            if position == tail {
                let (grant, _) = self.sequencer.next(1, deadline).await?;
                if grant.first > position {
                    // Another client took the position first, so this one got a later position. It
                    // fills that later position, so that no reader waits for it.
                    Box::pin(self.run(Operation::Fill(&[grant.first]), deadline)).await?;
                }
            }
        }
    }

    /// Runs an operation on the object of its positions, until the object answers.
    async fn run(&self, operation: Operation<'_>, deadline: Instant) -> Result<Outcome> {
        let mut backoff = Backoff::new();
        let position = operation.last_position();
        loop {
            let Some(view) = self.issuing_view(position, deadline).await? else {
                return Ok(Outcome::PastTail);
            };
            let place = operation.place(&view).filter(|place| !view.is_forgotten(*place));
            let Some(object) = place.and_then(|place| view.object(place)) else {
                return Ok(Outcome::Forgotten);
            };
            let failure = match self.call(operation, Addressed::by(&view, &object)).await {
                Ok(done) => return Ok(done),
                Err(CallFailure::Failed(error)) => return Err(error),
                Err(failure) => failure,
            };
            if Instant::now() >= deadline {
                return Err(failure.into_error(object));
            }
            let is_later = match failure {
                CallFailure::NoAnswer(_) => false,
                _ => self.views.later_than(view.epoch()).await?.epoch() > view.epoch(),
            };
            if !is_later && matches!(failure, CallFailure::Unsealed) {
                return Ok(Outcome::Lost);
            }
            if !is_later {
                backoff.wait().await;
            }
        }
    }

    async fn call(&self, operation: Operation<'_>, to: Addressed<'_>) -> CallResult<Outcome> {
        match operation {
            Operation::Fill(positions) => {
                self.storage.fill(to, positions).await.map(Outcome::Filled)
            }
            Operation::Trim(position) => {
                self.storage.trim(to, position).await.map(|()| Outcome::Trimmed { is_left: false })
            }
            Operation::TrimTo(position, _) => {
                let is_left = self.storage.trim_to(to, position).await?;
                Ok(Outcome::Trimmed { is_left })
            }
        }
    }
}

/// An operation on an object.
#[derive(Debug, Clone, Copy)]
enum Operation<'a> {
    /// Fill positions of one place, in order; at least one.
    Fill(&'a [u64]),
    /// Trim a position.
    Trim(u64),
    /// Trim the positions of one object up to this position, which may be on another object.
    TrimTo(u64, EntryLocation),
}

impl Operation<'_> {
    fn last_position(&self) -> u64 {
        match self {
            Self::Fill(positions) => positions.last().copied().unwrap_or_default(),
            Self::Trim(position) | Self::TrimTo(position, _) => *position,
        }
    }

    /// The object ([`EntryLocation`]) that the operation concerns. `None` if the view has forgotten it, or
    /// if the positions are on several objects.
    fn place(&self, view: &View) -> Option<EntryLocation> {
        match self {
            Self::Fill(positions) => {
                let place = view.place(self.last_position());
                positions.iter().all(|position| view.place(*position) == place).then_some(place)?
            }
            Self::Trim(position) => view.place(*position),
            Self::TrimTo(_, place) => Some(*place),
        }
    }
}

/// The outcome of an operation.
#[derive(Debug)]
enum Outcome {
    /// Filled: a status a position.
    Filled(Vec<Status>),
    /// Trimmed; whether entries are left to be reclaimed.
    Trimmed { is_left: bool },
    /// There was nothing to do: the view has forgotten the positions as trimmed.
    Forgotten,
    /// There was nothing to do: the object of the position was lost with its target. No client
    /// creates a lost object again.
    Lost,
    /// The operation was not done, because no sequencer has issued the position yet.
    PastTail,
}

impl Outcome {
    /// The statuses of a fill; `None` if the position is trimmed or lost.
    fn statuses(&self, position: u64) -> Result<Option<&[Status]>> {
        match self {
            Self::Filled(statuses) => Ok(Some(statuses)),
            Self::Trimmed { .. } | Self::Forgotten | Self::Lost => Ok(None),
            Self::PastTail => Err(past_tail(position)),
        }
    }

    /// Whether entries are left to be reclaimed.
    fn is_left(&self, position: u64) -> Result<bool> {
        match self {
            Self::Trimmed { is_left } => Ok(*is_left),
            Self::Filled(_) | Self::Forgotten | Self::Lost => Ok(false),
            Self::PastTail => Err(past_tail(position)),
        }
    }
}

pub(super) fn past_tail(position: u64) -> Error {
    Error::invalid(format!("position {position} is past the log's tail"))
        .hint("name a position below the tail")
}
