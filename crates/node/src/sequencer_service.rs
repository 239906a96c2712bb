//! The sequencer host as a service of the wire.

use async_trait::async_trait;
use bytes::Bytes;
use nacre_log::SequencerHost;
use nacre_object::Result;
use nacre_wire::{Caller, Service};

/// Hands questions to the host.
#[derive(Debug)]
pub struct SequencerService {
    host: SequencerHost,
}

impl SequencerService {
    /// A service of this host.
    pub fn new(host: SequencerHost) -> Self {
        Self { host }
    }
}

#[async_trait]
impl Service for SequencerService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        self.host.handle(method, input).await
    }

    fn only_waits(&self, method: &str) -> bool {
        method == "tail"
    }
}
