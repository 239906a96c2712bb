//! How much the resources of a node are used, for balancers and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ResourceHost;
use super::host::ResourceSlot;
use super::machine::Uses;
use crate::ResourceName;

/// How much one resource was used on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUse {
    /// The resource.
    pub name: ResourceName,
    /// Its file type.
    pub file_type: String,
    /// Calls of methods that read, since the node started.
    pub reads: u64,
    /// Calls of methods that write, since the node started.
    pub writes: u64,
}

/// What a host has lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LendingCounts {
    /// Resources of which clients hold capabilities now.
    pub lent: u64,
    /// How many capabilities were not returned in time since the node started.
    pub evictions: u64,
}

impl ResourceHost {
    /// How much each resource was used that this node serves now.
    pub fn uses(&self) -> Vec<ResourceUse> {
        let used = |name: ResourceName| {
            let slot = self.0.known_slot(name.as_str())?;
            let file_type = slot.machine().as_ref()?.serving_type().to_owned();
            let Uses { reads, writes } = &slot.beside.uses;
            let [reads, writes] = [reads, writes].map(|count| count.load(Ordering::Relaxed));
            Some(ResourceUse { name, file_type, reads, writes })
        };
        self.0.serving().into_iter().filter_map(used).collect()
    }

    /// What it has lent.
    pub fn lending_counts(&self) -> LendingCounts {
        let is_lent = |name: &ResourceName| {
            let slot = self.0.known_slot(name.as_str());
            let is_lent =
                |slot: Arc<ResourceSlot>| Some(slot.machine().as_ref()?.lending.is_lent());
            slot.and_then(is_lent).unwrap_or_default()
        };
        let lent = self.0.serving().iter().filter(|name| is_lent(name)).count() as u64;
        LendingCounts { lent, evictions: self.0.kind().evictions.get() }
    }
}
