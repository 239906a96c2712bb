//! The recent users of a resource. Policies learn from it whether a client is alone, and which
//! tenant has done the fewest operations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::MAX_REMEMBERED;
use crate::policy::{Time, Wish};

#[derive(Debug, Default)]
pub(super) struct RecentRequests {
    /// The client that asked last, and since when no other client has asked. The time is `None` if
    /// no other client ever asked.
    sole: Option<(u64, Option<Time>)>,
    /// The client that last asked to change the state, and when it asked. A client that only reads
    /// counts as alone if no other client has changed the state for long enough.
    changed: Option<(u64, Time)>,
    /// Operations done by grants, by tenant.
    operations: HashMap<Arc<str>, u64>,
}

impl RecentRequests {
    /// Whether the last client that asked is this one.
    pub fn is_sole(&self, client: u64) -> bool {
        client != 0 && self.sole.is_some_and(|(sole, _)| sole == client)
    }

    /// Takes note of a client that asks.
    pub fn note(&mut self, now: Time, client: u64, wish: Wish) {
        if !wish.is_read() {
            self.changed = Some((client, now));
        }
        if !self.is_sole(client) {
            self.sole = Some((client, self.sole.map(|_| now)));
        }
    }

    /// Returns how long no other client has asked for anything that conflicts with this wish.
    pub fn alone(&self, now: Time, client: u64, wish: Wish) -> Duration {
        if wish.is_read() {
            return match self.changed {
                Some((changed_by, at)) if changed_by != client => now.saturating_sub(at),
                _ => Duration::MAX,
            };
        }
        match self.sole {
            Some((sole, since)) if sole == client => {
                since.map_or(Duration::MAX, |since| now.saturating_sub(since))
            }
            _ => Duration::ZERO,
        }
    }

    pub fn operations(&self, tenant: &str) -> u64 {
        self.operations.get(tenant).copied().unwrap_or_default()
    }

    /// Adds the operations of a grant that has ended to the count of its tenant. If there are too
    /// many tenants, all counts restart at zero. Policies must expect that anyway: a new authority
    /// has no counts.
    pub fn used(&mut self, tenant: &Arc<str>, operations: u64) {
        if self.operations.len() >= MAX_REMEMBERED && !self.operations.contains_key(tenant) {
            self.operations.clear();
        }
        *self.operations.entry(Arc::clone(tenant)).or_default() += operations;
    }
}
