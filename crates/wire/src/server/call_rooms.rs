//! Room for unary calls: how many one entity may have, and what they may take in memory, whoever still waits
//! for them.
//!
//! A call that changes something runs to its end though its client waits no longer, and then no stream
//! counts it any more. Without a bound, a client that gives up and asks again would leave requests behind
//! without end, and one that calls on ever more connections would keep all others out. Of one entity, so that
//! one that fills its room leaves the others theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nacre_object::EntityName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{MAX_CALLS_BYTES, MAX_ENTITY_CALLS, REQUEST_COST_BYTES};

/// The room of every entity that calls.
#[derive(Debug, Default)]
pub(crate) struct CallRooms(Mutex<HashMap<EntityName, Arc<Room>>>);

/// That of an entity.
#[derive(Debug)]
struct Room {
    places: Arc<Semaphore>,
    /// Bytes of those that were begun.
    begun: Arc<Semaphore>,
    /// Bytes of those that wait until they can be.
    waiting: Arc<Semaphore>,
}

/// The part of a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallRoom {
    _place: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
    /// Whoever has a part of a room, or waits for one, holds on to it.
    _room: Arc<Room>,
}

impl CallRooms {
    /// Room for a call of so many bytes, in turn; `None` if too many have it or wait for it.
    pub(crate) async fn take(&self, entity: &EntityName, bytes: usize) -> Option<CallRoom> {
        let cost = bytes.clamp(REQUEST_COST_BYTES, MAX_CALLS_BYTES) as u32;
        let room = self.room_of(entity);
        let place = Arc::clone(&room.places).try_acquire_owned().ok()?;
        let waiting = Arc::clone(&room.waiting).try_acquire_many_owned(cost).ok()?;
        let bytes = Arc::clone(&room.begun).acquire_many_owned(cost).await;
        drop(waiting);
        Some(CallRoom { _place: place, _bytes: bytes.expect("it is never closed"), _room: room })
    }

    fn room_of(&self, entity: &EntityName) -> Arc<Room> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(entity) {
            return Arc::clone(room);
        }
        rooms.retain(|_, room| Arc::strong_count(room) > 1);
        let room = Arc::new(Room {
            places: Arc::new(Semaphore::new(MAX_ENTITY_CALLS)),
            begun: Arc::new(Semaphore::new(MAX_CALLS_BYTES)),
            waiting: Arc::new(Semaphore::new(MAX_CALLS_BYTES)),
        });
        rooms.insert(entity.clone(), Arc::clone(&room));
        room
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
    fn one_entity_leaves_the_others_their_room() {
        let rooms = CallRooms::default();
        let [greedy, other] = ["greedy", "other"].map(entity);
        let take = |entity, bytes| rooms.take(entity, bytes).now_or_never();
        let all = take(&greedy, MAX_CALLS_BYTES).flatten().expect("it is free");
        assert!(take(&greedy, 0).is_none(), "small ones are counted, too");
        let _other = take(&other, 2 * MAX_CALLS_BYTES).flatten().expect("each has its own");
        drop(all);
        take(&greedy, 1).flatten().expect("it is free");
    }

    #[test]
    fn calls_of_an_entity_past_their_number_are_refused() {
        let rooms = CallRooms::default();
        let take = || rooms.take(&entity("greedy"), 1).now_or_never().expect("none waits");
        let mut held: Vec<_> = (0..MAX_ENTITY_CALLS).map(|_| take().unwrap()).collect();
        assert!(take().is_none());
        held.pop();
        take().unwrap();
    }

    #[test]
    fn what_waits_for_room_is_bounded_too() {
        let rooms = CallRooms::default();
        let greedy = entity("greedy");
        let take = |bytes| rooms.take(&greedy, bytes);
        let begun = take(MAX_CALLS_BYTES).now_or_never().flatten().unwrap();
        let mut waiting = Box::pin(take(MAX_CALLS_BYTES));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(take(1).now_or_never().expect("it does not wait").is_none());
        drop(begun);
        waiting.now_or_never().flatten().expect("it is its turn");
    }

    #[test]
    fn rooms_nobody_is_in_are_not_kept() {
        let rooms = CallRooms::default();
        for n in 0..100 {
            let name = entity(&format!("e{n}"));
            rooms.take(&name, 1).now_or_never().flatten().expect("it is free");
        }
        assert_eq!(rooms.0.lock().unwrap().len(), 1);
    }
}
