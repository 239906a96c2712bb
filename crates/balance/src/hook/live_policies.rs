//! `LivePolicies`: the policies that are live on a node.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::Policy;

/// The policies that are live on a node, by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LivePolicies(Arc<RwLock<BTreeMap<String, Arc<Policy>>>>);

impl LivePolicies {
    /// No policies yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The live version of a policy; `None` if none is live.
    pub fn get(&self, name: &str) -> Option<Arc<Policy>> {
        let policies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        policies.get(name).map(Arc::clone)
    }

    /// The names of the live policies with their versions.
    pub fn versions(&self) -> Vec<(String, u64)> {
        let policies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        policies.iter().map(|(name, policy)| (name.clone(), policy.version())).collect()
    }

    /// Makes a policy live under a name, in place of another version.
    pub(crate) fn insert(&self, name: &str, policy: Policy) {
        let mut policies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        policies.insert(name.to_owned(), Arc::new(policy));
    }

    /// Drops a policy. Whoever is running it finishes.
    pub(crate) fn remove(&self, name: &str) {
        let mut policies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        policies.remove(name);
    }
}
