//! Limits on unary calls: how many calls one entity may have, and how much memory they may take.
//!
//! A call that changes something runs to its end even if its client is gone. By then its HTTP/2
//! stream has ended, so the limit on streams does not count the call. Without these limits, a
//! client that gives up and calls again could leave any number of running calls behind. A client
//! that opens ever more connections could keep all others out. The limits apply to each entity
//! separately, so that one entity cannot use up the share of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nacre_object::EntityName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{MAX_CALLS_BYTES, MAX_ENTITY_CALLS, REQUEST_COST_BYTES};

/// The limits of all entities with calls.
#[derive(Debug, Default)]
pub(crate) struct CallLimits(Mutex<HashMap<EntityName, Arc<EntityLimit>>>);

/// The limits of one entity.
#[derive(Debug)]
struct EntityLimit {
    slots: Arc<Semaphore>,
    /// Bytes of calls that were begun.
    begun: Arc<Semaphore>,
    /// Bytes of calls that wait to begin.
    waiting: Arc<Semaphore>,
}

/// A call's share of its entity's limits, which is free again once this is dropped.
#[derive(Debug)]
pub(crate) struct CallPermit {
    _place: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
    /// Keeps the entity's limits in the table while a call runs or waits.
    _room: Arc<EntityLimit>,
}

impl CallLimits {
    /// Waits until a call of this many bytes may begin; the calls of one entity begin in the order
    /// in which they came. Returns `None` at once if too many of the entity's calls are running or
    /// waiting.
    pub(crate) async fn take(&self, entity: &EntityName, bytes: usize) -> Option<CallPermit> {
        let cost = bytes.clamp(REQUEST_COST_BYTES, MAX_CALLS_BYTES) as u32;
        let limit = self.limit_of(entity);
        let slot = Arc::clone(&limit.slots).try_acquire_owned().ok()?;
        let waiting = Arc::clone(&limit.waiting).try_acquire_many_owned(cost).ok()?;
        let bytes = Arc::clone(&limit.begun).acquire_many_owned(cost).await;
        drop(waiting);
        Some(CallPermit { _place: slot, _bytes: bytes.expect("it is never closed"), _room: limit })
    }

    fn limit_of(&self, entity: &EntityName) -> Arc<EntityLimit> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get(entity) {
            return Arc::clone(limit);
        }
        limits.retain(|_, limit| Arc::strong_count(limit) > 1);
        let limit = Arc::new(EntityLimit {
            slots: Arc::new(Semaphore::new(MAX_ENTITY_CALLS)),
            begun: Arc::new(Semaphore::new(MAX_CALLS_BYTES)),
            waiting: Arc::new(Semaphore::new(MAX_CALLS_BYTES)),
        });
        limits.insert(entity.clone(), Arc::clone(&limit));
        limit
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn entity(name: &str) -> EntityName {
        EntityName::new(name).unwrap()
    }

    #[test]
    fn one_entity_cannot_take_the_call_budget_of_another() {
        let limits = CallLimits::default();
        let [greedy, other] = ["greedy", "other"].map(entity);
        let take = |entity, bytes| limits.take(entity, bytes).now_or_never();
        let all = take(&greedy, MAX_CALLS_BYTES).flatten().expect("it is free");
        assert!(take(&greedy, 0).is_none(), "small ones are counted, too");
        let _other = take(&other, 2 * MAX_CALLS_BYTES).flatten().expect("each has its own");
        drop(all);
        take(&greedy, 1).flatten().expect("it is free");
    }

    #[test]
    fn an_entity_is_refused_more_than_its_number_of_calls() {
        let limits = CallLimits::default();
        let take = || limits.take(&entity("greedy"), 1).now_or_never().expect("none waits");
        let mut held: Vec<_> = (0..MAX_ENTITY_CALLS).map(|_| take().unwrap()).collect();
        assert!(take().is_none());
        held.pop();
        take().unwrap();
    }

    #[test]
    fn the_bytes_of_waiting_calls_are_bounded() {
        let limits = CallLimits::default();
        let greedy = entity("greedy");
        let take = |bytes| limits.take(&greedy, bytes);
        let begun = take(MAX_CALLS_BYTES).now_or_never().flatten().unwrap();
        let mut waiting = Box::pin(take(MAX_CALLS_BYTES));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(take(1).now_or_never().expect("it does not wait").is_none());
        drop(begun);
        waiting.now_or_never().flatten().expect("it is its turn");
    }

    #[test]
    fn the_limits_of_an_entity_without_calls_are_dropped() {
        let limits = CallLimits::default();
        for n in 0..100 {
            let name = entity(&format!("e{n}"));
            limits.take(&name, 1).now_or_never().flatten().expect("it is free");
        }
        assert_eq!(limits.0.lock().unwrap().len(), 1);
    }
}
