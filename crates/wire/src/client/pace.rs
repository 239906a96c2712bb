//! Limits how fast a session sends, while the speed of its node's network link is stated (with
//! `nacre slo link`).
//!
//! The client sends at most at that speed. So its messages wait in the outbox, and not in the
//! buffers of the network, where small messages would wait behind large ones. In the outbox each
//! pool has a queue of its own, a *lane*, and the lanes take turns.
//!
//! **Invariant:** while no speed is stated, messages are sent in the order in which the calls were
//! made.

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
    /// The pace for a new connection, from the node's `Welcome`.
    pub(crate) fn new(welcome: &Welcome, clock: Arc<dyn Clock>) -> Self {
        let cutting = match welcome.takes_parts {
            true => Cutting::Parts { field: PART_FIELD },
            false => Cutting::Whole,
        };
        let pace = Self { is_on: Arc::default(), gate: Gate::new(clock), cutting };
        pace.set(welcome.link_bytes_per_second);
        pace
    }

    /// Sets the speed of the node's link, in bytes a second; 0 if no speed is stated.
    pub(crate) fn set(&self, bytes_per_second: u64) {
        let link = nacre_qos::Link::new(bytes_per_second as f64).ok();
        self.is_on.store(link.is_some(), Ordering::Relaxed);
        self.gate.set(link.map(|link| (link, BTreeMap::new())));
    }

    /// The lane of the outbox in which a call waits.
    pub(crate) fn lane(&self, call: &Call, outbox: &Outbox) -> Lane {
        if !self.is_on.load(Ordering::Relaxed) {
            return Lane::MAIN;
        }
        let pool = call.pool().unwrap_or_default();
        // The gate counts each pool as a tenant. All pools whose names are not valid tenant names
        // count as one tenant.
        let tenant = TenantName::new(&pool).unwrap_or_else(|_| TenantName::standard());
        outbox.lane(&tenant, &pool, &self.gate, self.cutting)
    }
}
