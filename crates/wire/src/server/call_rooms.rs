//! Room for unary calls: what those of one entity may take in memory, whoever still waits for them.
//!
//! A call that changes something runs to its end though its client waits no longer, and then no stream
//! counts it any more. Without a bound, a client that gives up and asks again would leave requests behind
//! without end. Of one entity, so that one that fills its room leaves the others theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nacre_object::EntityName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{MAX_CALLS_BYTES, REQUEST_COST_BYTES};

/// The room of every entity that calls.
#[derive(Debug, Default)]
pub(crate) struct CallRooms(Mutex<HashMap<EntityName, Arc<Semaphore>>>);

/// The part of a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallRoom {
    _permit: OwnedSemaphorePermit,
}

impl CallRooms {
    /// Room for a call of so many bytes, in turn. Who waits for it has a stream, and so is counted there.
    pub(crate) async fn take(&self, entity: &EntityName, bytes: usize) -> CallRoom {
        let cost = bytes.clamp(REQUEST_COST_BYTES, MAX_CALLS_BYTES) as u32;
        let permit = self.room_of(entity).acquire_many_owned(cost).await;
        CallRoom { _permit: permit.expect("it is never closed") }
    }

    fn room_of(&self, entity: &EntityName) -> Arc<Semaphore> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(entity) {
            return Arc::clone(room);
        }
        // Whoever has a part of a room, or waits for one, holds on to it.
        rooms.retain(|_, room| Arc::strong_count(room) > 1);
        let room = Arc::new(Semaphore::new(MAX_CALLS_BYTES));
        rooms.insert(entity.clone(), Arc::clone(&room));
        room
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_entity_leaves_the_others_their_room() {
        let rooms = CallRooms::default();
        let [greedy, other] = ["greedy", "other"].map(|name| EntityName::new(name).unwrap());
        let take = |entity, bytes| rooms.take(entity, bytes).now_or_never();
        let all = take(&greedy, MAX_CALLS_BYTES).expect("it is free");
        assert!(take(&greedy, 0).is_none());
        let _other = take(&other, 2 * MAX_CALLS_BYTES).expect("each has its own");
        drop(all);
        let small = MAX_CALLS_BYTES / REQUEST_COST_BYTES;
        let held: Vec<_> = (0..small).map(|_| take(&greedy, 1).expect("it is free")).collect();
        assert!(take(&greedy, 1).is_none(), "small ones are counted, too");
        drop(held);
    }

    #[test]
    fn rooms_nobody_is_in_are_not_kept() {
        let rooms = CallRooms::default();
        for n in 0..100 {
            let entity = EntityName::new(format!("e{n}")).unwrap();
            rooms.take(&entity, 1).now_or_never().expect("it is free");
        }
        assert_eq!(rooms.0.lock().unwrap().len(), 1);
    }
}
