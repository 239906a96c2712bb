//! Limits on sessions: how many a server may have, and how many one entity may have.
//!
//! After a client has gone, its session may still have work in flight. Such a session is *left
//! behind*. It does not count against the limits, so a client that reconnects finds a free slot.
//! But an entity may have at most [`MAX_ENTITY_SESSIONS`] sessions left behind; further ones keep
//! their slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::EntityName;

use crate::limits::{MAX_ENTITY_SESSIONS, MAX_SESSIONS};

/// The sessions of a server, by entity.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSlots(Arc<Mutex<HashMap<EntityName, Sessions>>>);

/// The sessions of an entity.
#[derive(Debug, Default)]
struct Sessions {
    open: usize,
    /// Sessions whose client is gone.
    left: usize,
}

/// A session's slot, which is free again once this is dropped.
#[derive(Debug)]
pub(crate) struct SessionSlot {
    slots: SessionSlots,
    entity: EntityName,
    is_left: bool,
}

impl SessionSlots {
    /// Takes a slot for a session. An error says which limit is reached.
    pub(crate) fn take(&self, entity: &EntityName) -> Result<SessionSlot, String> {
        let mut sessions = self.lock();
        if open(&sessions) >= MAX_SESSIONS {
            return Err(format!(
                "this node already has {MAX_SESSIONS} sessions, the most it can have"
            ));
        }
        let own = sessions.entry(entity.clone()).or_default();
        if own.open >= MAX_ENTITY_SESSIONS {
            return Err(format!(
                "{entity} already has {MAX_ENTITY_SESSIONS} sessions, the most an entity can have"
            ));
        }
        own.open += 1;
        Ok(SessionSlot { slots: self.clone(), entity: entity.clone(), is_left: false })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        open(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntityName, Sessions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(sessions: &HashMap<EntityName, Sessions>) -> usize {
    sessions.values().map(|own| own.open).sum()
}

impl SessionSlot {
    /// Notes that the session's client is gone. Frees the slot for another session, unless the
    /// entity has left too many sessions behind.
    pub(crate) fn leave(&mut self) {
        let mut sessions = self.slots.lock();
        if let Some(own) = sessions.get_mut(&self.entity)
            && !self.is_left
            && own.left < MAX_ENTITY_SESSIONS
        {
            self.is_left = true;
            own.open -= 1;
            own.left += 1;
        }
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut sessions = self.slots.lock();
        if let Some(own) = sessions.get_mut(&self.entity) {
            match self.is_left {
                true => own.left -= 1,
                false => own.open -= 1,
            }
            if own.open + own.left == 0 {
                sessions.remove(&self.entity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entity_cannot_take_all_sessions() {
        let slots = SessionSlots::default();
        let entity = |n: usize| EntityName::new(format!("e{n}")).unwrap();
        let mut greedy: Vec<_> =
            (0..MAX_ENTITY_SESSIONS).map(|_| slots.take(&entity(0)).unwrap()).collect();
        assert!(slots.take(&entity(0)).unwrap_err().contains("e0 already has"));
        let others: Vec<_> = (MAX_ENTITY_SESSIONS..MAX_SESSIONS)
            .map(|n| slots.take(&entity(1 + n / 100)).unwrap())
            .collect();
        assert!(slots.take(&entity(9999)).unwrap_err().contains("this node already has"));
        greedy.pop();
        drop(slots.take(&entity(9999)).unwrap());
        drop((greedy, others));
        assert_eq!(slots.taken(), 0);
        assert!(slots.lock().is_empty());
    }

    #[test]
    fn sessions_whose_clients_are_gone_free_their_slots_up_to_a_bound() {
        let (slots, entity) = (SessionSlots::default(), EntityName::local());
        let take = || slots.take(&entity);
        let mut left: Vec<_> = (0..MAX_ENTITY_SESSIONS).map(|_| take().unwrap()).collect();
        take().unwrap_err();
        left.iter_mut().for_each(SessionSlot::leave);
        assert_eq!(slots.taken(), 0);
        let mut open: Vec<_> = (0..MAX_ENTITY_SESSIONS).map(|_| take().unwrap()).collect();
        open.iter_mut().for_each(SessionSlot::leave);
        take().unwrap_err();
        drop(left);
        open[0].leave();
        take().unwrap();
        drop(open);
        assert!(slots.lock().is_empty());
    }
}
