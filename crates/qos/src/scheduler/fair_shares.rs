//! `FairShares`: the work that each tenant got divided by its weight, whether it has a promise or not.
//!
//! An order of service that is not the native one may go by it. The native one counts only tenants without a promise.

use std::collections::BTreeMap;

use super::TenantId;
use super::order::{LEAST_SHARED_SECONDS, Pass};

/// The shares of all tenants since something else than the native order decides.
#[derive(Debug, Default)]
pub(super) struct FairShares {
    /// The share of the tenant that was served last.
    virtual_pass: Pass,
    passes: BTreeMap<TenantId, Pass>,
}

impl FairShares {
    /// What a tenant has got. One that was not served yet has got as much as the one served last.
    pub(super) fn of(&self, tenant: TenantId) -> f64 {
        self.passes.get(&tenant).unwrap_or(&self.virtual_pass).0
    }

    /// A tenant that had no requests begins to wait: it gets no more for having had nothing to do.
    pub(super) fn begin_to_wait(&mut self, tenant: TenantId) {
        let virtual_pass = self.virtual_pass;
        let pass = self.pass(tenant);
        *pass = (*pass).max(virtual_pass);
    }

    /// A request of so much work is sent.
    pub(super) fn serve(&mut self, tenant: TenantId, work_seconds: f64, weight: f64) {
        let pass = self.pass(tenant);
        let before = *pass;
        pass.0 += work_seconds.max(LEAST_SHARED_SECONDS) / weight;
        self.virtual_pass = self.virtual_pass.max(before);
    }

    /// Charges more work for a request that was sent: its size was known only afterwards.
    pub(super) fn charge(&mut self, tenant: TenantId, more_seconds: f64, weight: f64) {
        let pass = self.pass(tenant);
        pass.0 = (pass.0 + more_seconds / weight).max(0.0);
    }

    pub(super) fn forget(&mut self, tenant: TenantId) {
        self.passes.remove(&tenant);
    }

    fn pass(&mut self, tenant: TenantId) -> &mut Pass {
        self.passes.entry(tenant).or_insert(self.virtual_pass)
    }
}
