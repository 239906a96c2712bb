//! Room for sessions: so many in all, and so many of one entity.
//!
//! A session whose client is gone while work it began goes on keeps nobody out, as long as its entity has
//! not left as many behind as it may have open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::EntityName;

use crate::limits::{MAX_ENTITY_SESSIONS, MAX_SESSIONS};

/// The sessions of a server, by entity.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<EntityName, Sessions>>>);

/// The sessions of an entity.
#[derive(Debug, Default)]
struct Sessions {
    open: usize,
    /// Those whose client is gone.
    left: usize,
}

/// A session's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    entity: EntityName,
    is_left: bool,
}

impl Places {
    /// A place for a session; what is full if there is none.
    pub(crate) fn take(&self, entity: &EntityName) -> Result<Place, String> {
        let mut sessions = self.lock();
        if open(&sessions) >= MAX_SESSIONS {
            return Err(format!("this node has {MAX_SESSIONS} sessions already"));
        }
        let own = sessions.entry(entity.clone()).or_default();
        if own.open >= MAX_ENTITY_SESSIONS {
            return Err(format!("{entity} has {MAX_ENTITY_SESSIONS} sessions already"));
        }
        own.open += 1;
        Ok(Place { places: self.clone(), entity: entity.clone(), is_left: false })
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

impl Place {
    /// The session's client is gone: another may have the place, if there is room for this one beside it.
    pub(crate) fn leave(&mut self) {
        let mut sessions = self.places.lock();
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

impl Drop for Place {
    fn drop(&mut self) {
        let mut sessions = self.places.lock();
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
    fn one_entity_leaves_room_for_others() {
        let places = Places::default();
        let entity = |n: usize| EntityName::new(format!("e{n}")).unwrap();
        let mut greedy: Vec<_> =
            (0..MAX_ENTITY_SESSIONS).map(|_| places.take(&entity(0)).unwrap()).collect();
        assert!(places.take(&entity(0)).unwrap_err().contains("e0 has"));
        let others: Vec<_> = (MAX_ENTITY_SESSIONS..MAX_SESSIONS)
            .map(|n| places.take(&entity(1 + n / 100)).unwrap())
            .collect();
        assert!(places.take(&entity(9999)).unwrap_err().contains("this node has"));
        greedy.pop();
        drop(places.take(&entity(9999)).unwrap());
        drop((greedy, others));
        assert_eq!(places.taken(), 0);
        assert!(places.lock().is_empty());
    }

    #[test]
    fn what_clients_left_behind_keeps_nobody_out_and_has_its_bound() {
        let (places, entity) = (Places::default(), EntityName::local());
        let take = || places.take(&entity);
        let mut left: Vec<_> = (0..MAX_ENTITY_SESSIONS).map(|_| take().unwrap()).collect();
        take().unwrap_err();
        left.iter_mut().for_each(Place::leave);
        assert_eq!(places.taken(), 0);
        let mut open: Vec<_> = (0..MAX_ENTITY_SESSIONS).map(|_| take().unwrap()).collect();
        open.iter_mut().for_each(Place::leave);
        take().unwrap_err();
        drop(left);
        open[0].leave();
        take().unwrap();
        drop(open);
        assert!(places.lock().is_empty());
    }
}
