//! How fast a session sends while the speed of its node's link is stated.
//!
//! The client sends at most at that speed, because the node's link takes no more. So messages wait
//! in the outbox, in a lane for each pool, and not in the buffers of the network. Pools take turns.
//!
//! **Invariant:** while no speed is stated, all messages are sent in the order they were made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nacre_clock::Clock;
use nacre_object::TenantName;
use nacre_protocol::proto::Welcome;

use super::call::Call;
use crate::link::Gate;
use crate::outbox::{Cutting, Lane, Outbox};

/// `ClientMessage.part`.
const PART_FIELD: u32 = 12;

/// The pace of one connection. Clones are handles to the same pace.
#[derive(Debug, Clone)]
pub(crate) struct ClientPace {
    is_on: Arc<AtomicBool>,
    gate: Gate,
    cutting: Cutting,
}

impl ClientPace {
    /// The pace that a node asks for.
    pub(crate) fn new(welcome: &Welcome, clock: Arc<dyn Clock>) -> Self {
        let cutting = match welcome.takes_parts {
            true => Cutting::Parts { field: PART_FIELD },
            false => Cutting::Whole,
        };
        let pace = Self { is_on: Arc::default(), gate: Gate::new(clock), cutting };
        pace.set(welcome.link_bytes_per_second);
        pace
    }

    /// Takes note of the speed of the node's link in bytes a second; 0 if it is not stated.
    pub(crate) fn set(&self, bytes_per_second: u64) {
        let link = nacre_qos::Link::new(bytes_per_second as f64).ok();
        self.is_on.store(link.is_some(), Ordering::Relaxed);
        self.gate.set(link.map(|link| (link, BTreeMap::new())));
    }

    /// The lane of a call.
    pub(crate) fn lane(&self, call: &Call, outbox: &Outbox) -> Lane {
        if !self.is_on.load(Ordering::Relaxed) {
            return Lane::MAIN;
        }
        let pool = call.pool().unwrap_or_default();
        // Pools take turns like tenants. A pool whose name no tenant can have shares with the rest.
        let tenant = TenantName::new(&pool).unwrap_or_else(|_| TenantName::standard());
        outbox.lane(&tenant, &pool, &self.gate, self.cutting)
    }
}
