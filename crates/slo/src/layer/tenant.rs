//! `Tenant`: the state of one tenant at one target.

use std::time::Duration;

use nacre_object::TenantName;
use nacre_qos::Envelope;
use nacre_qos::scheduler::{TenantId, TenantState};

use super::meter::Meter;
use super::report::TenantReport;

/// A tenant at a target.
#[derive(Debug)]
pub(super) struct Tenant {
    /// Its id in the scheduler.
    pub id: TenantId,
    pub meter: Meter,
    pub watched: Option<Watched>,
}

/// The watch of a tenant's traffic, and when it ends.
#[derive(Debug)]
pub(super) struct Watched {
    pub envelope: Envelope,
    pub until: Duration,
}

impl Tenant {
    /// The tenant's report, with its state in the scheduler.
    pub fn report(
        &mut self,
        name: &TenantName,
        state: Option<TenantState>,
        now: Duration,
    ) -> TenantReport {
        let meter = &mut self.meter;
        TenantReport {
            tenant: name.to_string(),
            minute: meter.windows.minute(now),
            hour: meter.windows.hour(now),
            requests: meter.requests,
            within: meter.within,
            refused: meter.refused,
            misses: meter.misses,
            curve: self.watched.as_ref().and_then(|watched| watched.envelope.curve(now).ok()),
            queued: state.as_ref().map_or(0, |state| state.queued_requests),
            tokens_seconds: state.map(|state| state.tokens_seconds).unwrap_or_default(),
        }
    }
}
