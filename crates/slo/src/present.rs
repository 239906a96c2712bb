//! Computes the latency bounds of promises with the present profiles, for `nacre slo ls`.
//!
//! A promise stores the bound of its admission. Since then a measurement may have changed the
//! profiles, and other promises may have ended. [`present_bounds`] computes the bounds again. They
//! hold for tenants whose requests conform to their token buckets.

use std::collections::BTreeMap;

use nacre_object::{Result, TenantName};

use crate::records::SloState;
use crate::slos::admission_of;

/// The present latency bound of a tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresentBound {
    /// The bound, as in [`Promise::bound_seconds`](crate::Promise::bound_seconds); `None` if there
    /// is none.
    pub bound_seconds: Option<f64>,
    /// Whether a profile has changed since the tenant was admitted. Then the promised traffic may
    /// be more work than its token buckets allow.
    pub has_drifted: bool,
}

/// Computes the latency bound of each tenant with the present profiles.
///
/// # Errors
/// `Stale` if a promise was made for other targets.
pub fn present_bounds(state: &SloState) -> Result<BTreeMap<TenantName, PresentBound>> {
    let admission = admission_of(state)?;
    let epoch = state.profile_epoch();
    let present = admission.tenants().iter().zip(admission.latencies());
    let present = present.map(|(admitted, bound_seconds)| {
        let tenant = &admitted.candidate.tenant;
        let made_with = state.promises.get(tenant).and_then(|promise| promise.profile_epoch);
        let has_drifted = made_with.is_some_and(|made_with| made_with != epoch);
        (tenant.clone(), PresentBound { bound_seconds, has_drifted })
    });
    Ok(present.collect())
}
