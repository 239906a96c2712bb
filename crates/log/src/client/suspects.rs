//! The targets that a client suspects of being dead.
//!
//! A task that waits unusually long for a target, or asks it repeatedly, holds a [`Suspicion`].
//! When the last suspicion of a target is dropped, the client trusts the target again. That happens
//! when the target has answered, or when the tasks have given up. New appends avoid a suspected
//! target, so only tasks that need its answer keep asking it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::TargetName;

#[derive(Debug, Clone, Default)]
pub(super) struct Suspects(Arc<Mutex<HashMap<TargetName, usize>>>);

impl Suspects {
    fn counts(&self) -> MutexGuard<'_, HashMap<TargetName, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn suspect(&self, target: TargetName) -> Suspicion {
        *self.counts().entry(target.clone()).or_insert(0) += 1;
        Suspicion { suspects: self.clone(), target }
    }

    pub fn contains(&self, target: &TargetName) -> bool {
        self.counts().contains_key(target)
    }

    pub fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }

    pub fn all(&self) -> Vec<TargetName> {
        self.counts().keys().cloned().collect()
    }
}

/// Keeps a target suspect.
#[derive(Debug)]
pub(super) struct Suspicion {
    suspects: Suspects,
    target: TargetName,
}

impl Drop for Suspicion {
    fn drop(&mut self) {
        let mut counts = self.suspects.counts();
        if let Some(count) = counts.get_mut(&self.target) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_suspect_while_anybody_suspects_it() {
        let suspects = Suspects::default();
        let target = TargetName::new("t").unwrap();
        let first = suspects.suspect(target.clone());
        let second = suspects.suspect(target.clone());
        drop(first);
        assert!(suspects.contains(&target));
        drop(second);
        assert!(suspects.is_empty());
    }
}
