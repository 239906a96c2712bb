//! `FairShares`: the work that each tenant got, divided by its weight, for order programs.
//!
//! It counts tenants with and without a promise. The built-in order shares work only among tenants
//! without a promise.

use std::collections::BTreeMap;

use super::TenantId;
use super::order::{LEAST_SHARED_SECONDS, Pass};

/// The shares of all tenants since an order program began to decide.
#[derive(Debug, Default)]
pub(super) struct FairShares {
    /// The share of the tenant that was served last.
    virtual_pass: Pass,
    passes: BTreeMap<TenantId, Pass>,
}

impl FairShares {
    /// The share of a tenant. A tenant that was never served has the share of the tenant that was
    /// served last.
    pub(super) fn of(&self, tenant: TenantId) -> f64 {
        self.passes.get(&tenant).unwrap_or(&self.virtual_pass).0
    }

    /// Records that an idle tenant gets a request. Its share rises at least to that of the tenant
    /// that was served last, so that it gets no extra work for its idle time.
    pub(super) fn begin_to_wait(&mut self, tenant: TenantId) {
        let virtual_pass = self.virtual_pass;
        let pass = self.pass(tenant);
        *pass = (*pass).max(virtual_pass);
    }

    /// Records that a request with this work is sent to the device.
    pub(super) fn serve(&mut self, tenant: TenantId, work_seconds: f64, weight: f64) {
        let pass = self.pass(tenant);
        let before = *pass;
        pass.0 += work_seconds.max(LEAST_SHARED_SECONDS) / weight;
        self.virtual_pass = self.virtual_pass.max(before);
    }

    /// Corrects the share for a request whose work was unknown when it was sent.
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
