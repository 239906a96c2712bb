//! Reads positions: finds their objects by the view, and reads all objects at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use nacre_host::Backoff;
use nacre_object::{Error, Result};
use tokio::time::Instant;

use super::options::Entry;
use super::view_cache::{CachedView, ViewCache};
use crate::limits::{READ_BYTES, READ_SHARE_BYTES};
use crate::record;
use crate::storage::{
    Addressed, CallFailure, CallResult, EntryState, MAX_BATCH_ENTRIES, StorageClient,
};
use crate::view::{EntryLocation, View};

#[derive(Debug, Clone)]
pub(super) struct Reader {
    pub views: Arc<ViewCache>,
    pub storage: StorageClient,
}

/// A position to read, after its index in the answer.
type Wanted = (usize, u64);

/// What was found at a position.
#[derive(Debug, Clone)]
enum Found {
    /// What its object says.
    State(EntryState),
    /// No object where the stored view says that there is one.
    Lost,
}

impl Reader {
    /// Reads `positions` in order: at least one, and as many as fit into one answer. Stops before a
    /// damaged entry. Unwritten positions are `None`.
    ///
    /// Each attempt uses one view. The view is *final* for a position if no later view has the
    /// position on another object. Two answers need care:
    ///
    /// - An object holds no data for a position. The client believes that only if the view is final
    ///   for the position; otherwise it reads the stored view first.
    /// - An object does not exist. Objects are created before a view names them, so the object was
    ///   lost. The client concludes this only under the stored view.
    ///
    /// If a target does not answer by the deadline, the answer ends before the first position on
    /// that target.
    ///
    /// # Errors
    /// `Corrupt` if the first entry is damaged; `Unavailable` if the target of the first entry did
    /// not answer by the deadline.
    pub async fn read(&self, positions: &[u64], deadline: Instant) -> Result<Vec<Option<Entry>>> {
        let mut found: Vec<Option<Found>> = vec![None; positions.len()];
        let mut backoff = Backoff::new();
        let mut cached = self.views.cached();
        loop {
            let failure = self.read_round(&cached, positions, &mut found).await?;
            let count = found.iter().take_while(|state| state.is_some()).count();
            let bytes: usize = found.iter().flatten().map(data_bytes).sum();
            let is_final = |(state, position): &(&Option<Found>, &u64)| {
                **position < cached.final_below || is_data(state)
            };
            let believed = found.iter().zip(positions).take(count).take_while(is_final).count();
            if count == positions.len() || (count > 0 && bytes >= READ_BYTES as usize) {
                if believed == count || !go_on_by(self.stored().await?, &mut cached, &mut found) {
                    found.truncate(count);
                    return entries_of(found.into_iter().flatten(), positions);
                }
                continue;
            }
            // Without one the answers were full.
            let Some(failure) = failure else { continue };
            if Instant::now() >= deadline {
                if believed > 0 {
                    found.truncate(believed);
                    return entries_of(found.into_iter().flatten(), positions);
                }
                let object = format!("the object of position {}", positions[count]);
                return Err(failure.into_error(object));
            }
            let next = match failure {
                CallFailure::Unsealed => self.stored().await?,
                CallFailure::Stale | CallFailure::Failed(_) => {
                    self.views.later_than(cached.view.epoch()).await?;
                    self.views.cached()
                }
                CallFailure::NoAnswer(_) => self.views.cached(),
            };
            let asks_anew = next.is_stored();
            if !go_on_by(next, &mut cached, &mut found) && !asks_anew {
                backoff.wait().await;
            }
        }
    }

    /// Reads the stored view now. It is final for all positions that were issued before.
    async fn stored(&self) -> Result<CachedView> {
        Ok(CachedView::stored(self.views.read_now().await?))
    }

    /// Reads each position that is not found yet, once. Returns one of the failures, if there was
    /// any.
    async fn read_round(
        &self,
        cached: &CachedView,
        positions: &[u64],
        found: &mut [Option<Found>],
    ) -> Result<Option<CallFailure>> {
        let view = &*cached.view;
        let mut by_place: BTreeMap<EntryLocation, Vec<Wanted>> = BTreeMap::new();
        for (index, position) in positions.iter().copied().enumerate() {
            if found[index].is_some() {
                continue;
            }
            if position < view.kept_from() {
                found[index] = Some(Found::State(EntryState::Trimmed));
            } else if let Some(place) = view.sequencer().and_then(|_| view.place(position)) {
                by_place.entry(place).or_default().push((index, position));
            } else {
                // No sequencer has issued it under this view.
                found[index] = Some(Found::State(EntryState::Unwritten));
            }
        }
        let share = (READ_BYTES / by_place.len().max(1) as u32).max(READ_SHARE_BYTES);
        let reads =
            by_place.iter().map(|(place, wanted)| self.read_object(view, *place, wanted, share));
        let mut failure = None;
        for (wanted, states) in by_place.values().zip(join_all(reads).await) {
            match states {
                Ok(states) => {
                    for ((index, _), state) in wanted.iter().zip(states) {
                        found[*index] = Some(Found::State(state));
                    }
                }
                Err(CallFailure::Failed(error)) => return Err(error),
                Err(CallFailure::Unsealed) if cached.is_stored() => {
                    wanted.iter().for_each(|(index, _)| found[*index] = Some(Found::Lost));
                }
                Err(other) => failure = Some(other),
            }
        }
        Ok(failure)
    }

    async fn read_object(
        &self,
        view: &View,
        place: EntryLocation,
        wanted: &[Wanted],
        byte_limit: u32,
    ) -> CallResult<Vec<EntryState>> {
        let object = view.object(place).ok_or(CallFailure::Unsealed)?;
        let positions: Vec<_> =
            wanted.iter().take(MAX_BATCH_ENTRIES).map(|(_, position)| *position).collect();
        self.storage.read(Addressed::by(view, &object), byte_limit, &positions).await
    }
}

/// Takes the view for the next attempt. Returns whether it is later than the view before.
///
/// A position has the same data under every view, so found data is kept. All other results are
/// dropped, because a later view may have their positions on other objects.
fn go_on_by(next: CachedView, cached: &mut CachedView, found: &mut [Option<Found>]) -> bool {
    let is_later = next.view.epoch() > cached.view.epoch();
    if is_later {
        found.iter_mut().filter(|state| !is_data(state)).for_each(|state| *state = None);
    }
    *cached = next;
    is_later
}

fn is_data(found: &Option<Found>) -> bool {
    matches!(found, Some(Found::State(EntryState::Data(_))))
}

fn data_bytes(found: &Found) -> usize {
    match found {
        Found::State(EntryState::Data(data)) => data.len(),
        _ => 0,
    }
}

/// Returns the entries before the first damaged one, so that a damaged entry does not hide them.
///
/// # Errors
/// `Corrupt` if the first entry is damaged.
fn entries_of(found: impl Iterator<Item = Found>, positions: &[u64]) -> Result<Vec<Option<Entry>>> {
    let mut entries = vec![];
    for (found, position) in found.zip(positions) {
        match entry_of(found, *position) {
            Ok(entry) => entries.push(entry),
            Err(damaged) if entries.is_empty() => return Err(damaged),
            Err(_) => break,
        }
    }
    Ok(entries)
}

fn entry_of(found: Found, position: u64) -> Result<Option<Entry>> {
    let Found::State(state) = found else { return Ok(Some(Entry::Lost)) };
    Ok(Some(match state {
        EntryState::Unwritten => return Ok(None),
        EntryState::Data(entry) => Entry::Data(record::decode(entry, position)?),
        EntryState::Filled => Entry::Filled,
        EntryState::Trimmed => Entry::Trimmed,
        EntryState::Damaged => {
            return Err(Error::corrupt(format!(
                "the log's entry at position {position} is damaged"
            ))
            .hint("`nacre scrub` says what is damaged; trim the position to skip it"));
        }
    }))
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    #[test]
    fn a_damaged_entry_fails_only_reads_that_start_there() {
        let states = || {
            [EntryState::Filled, EntryState::Unwritten, EntryState::Damaged]
                .into_iter()
                .map(Found::State)
        };
        let entries = entries_of(states().chain([Found::Lost]), &[4, 5, 6, 7]).unwrap();
        assert_eq!(entries, [Some(Entry::Filled), None]);
        let error = entries_of(states().skip(2), &[6, 7]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains('6'), "{error}");
    }
}
