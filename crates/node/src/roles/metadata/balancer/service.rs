//! The balancer as a service of the wire: it receives heartbeats.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use nacre_balance::Heartbeat;
use nacre_object::{Error, Result};
use nacre_wire::{Caller, Service};

use super::Heard;

/// The method by which a rank sends its heartbeat: a [`Heartbeat`] in JSON. The answer is empty.
pub(super) const HEARTBEAT: &str = "heartbeat";

/// Takes heartbeats in.
#[derive(Debug)]
pub(in super::super) struct BalancerService {
    heard: Arc<Heard>,
}

impl BalancerService {
    pub(super) fn new(heard: Arc<Heard>) -> Self {
        Self { heard }
    }
}

#[async_trait]
impl Service for BalancerService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        if method != HEARTBEAT {
            return Err(Error::unsupported(format!("a balancer has no method {method:?}")));
        }
        let heartbeat: Heartbeat = serde_json::from_slice(&input)
            .map_err(|cause| Error::invalid(format!("the heartbeat is malformed: {cause}")))?;
        self.heard.hear(heartbeat);
        Ok(Bytes::new())
    }
}

impl Heard {
    /// Records a received heartbeat, and wakes the decision that waits for it.
    pub(super) fn hear(&self, heartbeat: Heartbeat) {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).hear(heartbeat);
        self.news.notify_waiters();
    }
}
