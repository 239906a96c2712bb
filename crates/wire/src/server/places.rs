//! Room for sessions: so many in all, and so many of one entity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::EntityName;

use crate::limits::{MAX_ENTITY_SESSIONS, MAX_SESSIONS};

/// The sessions of a server, by entity.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<EntityName, usize>>>);

/// A session's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    entity: EntityName,
}

impl Places {
    /// A place for a session; what is full if there is none.
    pub(crate) fn take(&self, entity: &EntityName) -> Result<Place, String> {
        let mut sessions = self.lock();
        if sessions.values().sum::<usize>() >= MAX_SESSIONS {
            return Err(format!("this node has {MAX_SESSIONS} sessions already"));
        }
        let own = sessions.entry(entity.clone()).or_default();
        if *own >= MAX_ENTITY_SESSIONS {
            return Err(format!("{entity} has {MAX_ENTITY_SESSIONS} sessions already"));
        }
        *own += 1;
        Ok(Place { places: self.clone(), entity: entity.clone() })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntityName, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sessions = self.places.lock();
        if let Some(own) = sessions.get_mut(&self.entity) {
            *own -= 1;
            if *own == 0 {
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
}
