//! The lease that lets one process at a time do some work, such as changing layouts or running the
//! control applications of routes. It is stored as the entry `@keeper` of a map.
//!
//! The holder regularly increments a counter in the entry, the beat. A process that sees the same
//! beat for a time called the patience, by its own clock, takes the lease over by
//! compare-and-swap. The protocol never compares clocks of different processes.
//!
//! Two processes may both believe for a short time that they hold the lease. This must be harmless:
//! each commit fails unless the entry names the committing process, and repeating any other step
//! has no effect.

use std::time::Duration;

use nacre_object::{Error, Result};
use nacre_registry::{Change, MapState};
use serde::{Deserialize, Serialize};

const LEASE_KEY: &str = "@keeper";

/// The times of a kind of lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseTimes {
    /// The time between two beats of the holder.
    pub beat: Duration,
    /// A holder without a beat for this time is assumed to be dead. It is longer than three beats,
    /// because a beat may be late.
    pub patience: Duration,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseHolder {
    pub node: String,
    pub incarnation: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LeaseEntry {
    #[serde(rename = "keeper")]
    holder: LeaseHolder,
    beat: u64,
}

/// A process's view of the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    me: LeaseHolder,
    times: LeaseTimes,
    /// The last entry that this process saw, and when it first saw this entry.
    seen: Option<(LeaseEntry, Duration)>,
}

/// The state of the lease, as this process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// This process holds the lease. `is_beat_due` says whether it should beat again.
    Mine { is_beat_due: bool },
    /// This process may take over.
    Free,
    /// Another process holds the lease.
    Others,
}

impl Lease {
    pub fn new(me: LeaseHolder, times: LeaseTimes) -> Self {
        Self { me, times, seen: None }
    }

    /// This process.
    pub fn me(&self) -> &LeaseHolder {
        &self.me
    }

    /// Which process may work now; `now` is the time of a monotonic clock.
    pub fn look(&mut self, now: Duration, state: &MapState) -> Result<LeaseState> {
        let Some(held) = held(state)? else { return Ok(LeaseState::Free) };
        let is_mine = held.holder == self.me;
        // If an earlier incarnation of this node holds the lease, it is dead.
        let was_me =
            held.holder.node == self.me.node && held.holder.incarnation < self.me.incarnation;
        let since = match &self.seen {
            Some((seen, since)) if *seen == held => *since,
            _ => {
                self.seen = Some((held, now));
                now
            }
        };
        let unchanged = now.saturating_sub(since);
        Ok(match is_mine {
            true => LeaseState::Mine { is_beat_due: unchanged >= self.times.beat },
            false if was_me || unchanged >= self.times.patience => LeaseState::Free,
            false => LeaseState::Others,
        })
    }

    /// The map change by which this process takes the lease from the holder that it saw. The change
    /// fails if another process has taken the lease first.
    pub fn take(&self, state: &MapState) -> Result<Vec<Change>> {
        let now = held(state)?;
        let seen = self.seen.as_ref().map(|(held, _)| held);
        match &now {
            Some(held) if Some(held) != seen && held.holder != self.me => Err(deposed(state)),
            _ => Ok(vec![self.beat_after(now.map_or(0, |held| held.beat))]),
        }
    }

    /// The change that counts the beat up.
    ///
    /// # Errors
    /// `Stale` if another process has taken over.
    pub fn beat(&self, state: &MapState) -> Result<Change> {
        match held(state)? {
            Some(held) if held.holder == self.me => Ok(self.beat_after(held.beat)),
            _ => Err(deposed(state)),
        }
    }

    fn beat_after(&self, beat: u64) -> Change {
        let held = LeaseEntry { holder: self.me.clone(), beat: beat + 1 };
        Change::set(LEASE_KEY, serde_json::to_vec(&held).expect("a beat has nothing JSON lacks"))
    }
}

fn held(state: &MapState) -> Result<Option<LeaseEntry>> {
    let Some(value) = state.entries.get(LEASE_KEY) else { return Ok(None) };
    let held = serde_json::from_slice(value);
    held.map(Some).map_err(|cause| {
        let map = &state.name;
        Error::corrupt(format!("the entry {LEASE_KEY} of the map {map} is malformed: {cause}"))
            .hint(format!("remove it: nacre map rm {map} --system {LEASE_KEY}"))
    })
}

fn deposed(state: &MapState) -> Error {
    Error::stale(format!("another process has taken over the lease in the map {}", state.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn lease(node: &str, incarnation: u64) -> Lease {
        let times = LeaseTimes { beat: Duration::from_secs(5), patience: Duration::from_secs(20) };
        Lease::new(LeaseHolder { node: node.to_owned(), incarnation }, times)
    }

    fn empty() -> MapState {
        MapState { name: "layouts".parse().unwrap(), epoch: 0, entries: BTreeMap::new() }
    }

    fn apply(state: &mut MapState, changes: Vec<Change>) {
        for change in changes {
            state.entries.insert(change.key().to_owned(), change.value().unwrap().clone());
        }
    }

    #[test]
    fn a_holder_keeps_the_lease_while_it_renews_it_and_loses_it_when_silent() {
        let (mut a, mut b, mut state) = (lease("a", 1), lease("b", 1), empty());
        let at = Duration::from_secs;
        assert_eq!(a.look(at(0), &state).unwrap(), LeaseState::Free);
        let taken = a.take(&state).unwrap();
        // The other process also saw the lease as free, but tries to take it too late.
        assert_eq!(b.look(at(0), &state).unwrap(), LeaseState::Free);
        apply(&mut state, taken);
        assert!(b.take(&state).is_err());
        assert_eq!(a.look(at(1), &state).unwrap(), LeaseState::Mine { is_beat_due: false });
        assert_eq!(a.look(at(6), &state).unwrap(), LeaseState::Mine { is_beat_due: true });
        let beat = a.beat(&state).unwrap();
        apply(&mut state, vec![beat]);
        assert_eq!(a.look(at(7), &state).unwrap(), LeaseState::Mine { is_beat_due: false });
        for second in (0..100).step_by(19) {
            assert_eq!(b.look(at(second), &state).unwrap(), LeaseState::Others);
            let beat = a.beat(&state).unwrap();
            apply(&mut state, vec![beat]);
        }
        assert_eq!(b.look(at(200), &state).unwrap(), LeaseState::Others);
        assert_eq!(b.look(at(219), &state).unwrap(), LeaseState::Others);
        assert_eq!(b.look(at(220), &state).unwrap(), LeaseState::Free);
        let taken = b.take(&state).unwrap();
        apply(&mut state, taken);
        assert!(a.beat(&state).is_err(), "a is deposed");
        assert_eq!(a.look(at(221), &state).unwrap(), LeaseState::Others);
    }

    #[test]
    fn a_restarted_node_takes_its_lease_over_at_once() {
        let (mut before, mut after, mut state) = (lease("a", 1), lease("a", 2), empty());
        before.look(Duration::ZERO, &state).unwrap();
        let taken = before.take(&state).unwrap();
        apply(&mut state, taken);
        assert_eq!(after.look(Duration::ZERO, &state).unwrap(), LeaseState::Free);
        let taken = after.take(&state).unwrap();
        apply(&mut state, taken);
        assert!(before.beat(&state).is_err());
        assert_eq!(before.look(Duration::ZERO, &state).unwrap(), LeaseState::Others);
    }
}
