//! Which tenants `nacre slo advise` can move on Ceph, and why not the others.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{Error, PoolName, Result, TenantName};
use nacre_slo::SloState;

/// A pool that is made for a moved tenant gets so many placement groups.
const PROPOSED_GROUPS: u32 = 32;

/// Which pools belong to which tenant, and where they lie.
pub(super) struct Movable<'a> {
    state: &'a SloState,
    /// The RADOS pool of each pool that has one of its own.
    placed: BTreeMap<PoolName, String>,
}

impl<'a> Movable<'a> {
    /// `placed` are the pools with a RADOS pool other than the main one.
    pub fn new(state: &'a SloState, placed: BTreeMap<PoolName, String>) -> Self {
        Self { state, placed }
    }

    /// The pools of a tenant.
    pub fn pools_of(&self, tenant: &TenantName) -> Vec<&'a PoolName> {
        let pools = self.state.pools.iter().filter(|(_, owner)| *owner == tenant);
        pools.map(|(pool, _)| pool).collect()
    }

    /// The RADOS pools that hold the pools of a tenant, and nothing else.
    ///
    /// # Errors
    /// `Unsupported` if the tenant cannot be moved.
    pub fn rados_pools_of(&self, tenant: &TenantName) -> Result<BTreeSet<String>> {
        if let Some(moved) = self.state.placements.get(tenant) {
            let text = format!("it was moved to {} before", moved.target);
            return Err(Error::unsupported(text)
                .on(tenant)
                .hint(format!("take that back first: nacre slo advise --undo {tenant}")));
        }
        let pools = self.pools_of(tenant);
        if pools.is_empty() {
            return Err(Error::unsupported("the tenant has no pool of its own").on(tenant).hint(
                "assign it one that lies in a RADOS pool of its own: nacre pool create, nacre slo pool",
            ));
        }
        pools.into_iter().map(|pool| self.own_rados_pool(tenant, pool)).collect()
    }

    fn own_rados_pool(&self, tenant: &TenantName, pool: &PoolName) -> Result<String> {
        let Some(rados_pool) = self.placed.get(pool) else {
            let text = format!("its pool {pool} lies in the RADOS pool that all pools share");
            return Err(Error::unsupported(text).on(tenant).hint(
                "Ceph places whole RADOS pools: give the tenant a pool that was made with \
                 `nacre pool create POOL --rados-pool NAME`, and write its objects there",
            ));
        };
        let is_other = |other: &&PoolName| {
            self.placed.get(*other) == Some(rados_pool)
                && self.state.pools.get(*other) != Some(tenant)
        };
        match self.placed.keys().find(is_other) {
            None => Ok(rados_pool.clone()),
            Some(other) => {
                let text = format!("its RADOS pool {rados_pool} also holds the pool {other}");
                Err(Error::unsupported(text).on(tenant).hint(format!(
                    "if that pool is the tenant's, say so: nacre slo pool {other} {tenant}"
                )))
            }
        }
    }

    /// The commands that make a pool for a tenant which can be moved.
    pub fn commands_for(&self, tenant: &str) -> Vec<String> {
        let name = format!("nacre-{tenant}");
        vec![
            format!("ceph osd pool create {name} {PROPOSED_GROUPS} {PROPOSED_GROUPS} replicated"),
            format!("ceph osd pool application enable {name} nacre"),
            format!("nacre pool create {tenant}-own --rados-pool {name}"),
            format!("nacre slo pool {tenant}-own {tenant}"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pools: &[(&str, &str)]) -> SloState {
        let pools =
            pools.iter().map(|(pool, tenant)| (pool.parse().unwrap(), tenant.parse().unwrap()));
        SloState { pools: pools.collect(), ..SloState::default() }
    }

    fn placed(pools: &[(&str, &str)]) -> BTreeMap<PoolName, String> {
        pools.iter().map(|(pool, rados)| (pool.parse().unwrap(), (*rados).to_owned())).collect()
    }

    fn rados_pools(
        state: &SloState,
        placed: BTreeMap<PoolName, String>,
    ) -> Result<BTreeSet<String>> {
        Movable::new(state, placed).rados_pools_of(&"gold".parse().unwrap())
    }

    #[test]
    fn a_tenant_whose_pools_have_rados_pools_of_their_own_can_be_moved() {
        let state = state(&[("orders", "gold"), ("bills", "gold"), ("data", "silver")]);
        let found = rados_pools(&state, placed(&[("orders", "one"), ("bills", "one")])).unwrap();
        assert_eq!(found, ["one".to_owned()].into());
        let found = rados_pools(&state, placed(&[("orders", "one"), ("bills", "two")])).unwrap();
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_tenant_that_shares_a_rados_pool_cannot_be_moved() {
        let refused = |state: &SloState, pools: &[(&str, &str)]| {
            rados_pools(state, placed(pools)).unwrap_err().to_string()
        };
        assert!(refused(&state(&[]), &[]).contains("no pool of its own"));
        let shared = state(&[("orders", "gold"), ("bills", "gold")]);
        assert!(refused(&shared, &[("orders", "one")]).contains("bills"));
        let both = [("orders", "one"), ("bills", "one")];
        let beside = refused(&state(&[("orders", "gold"), ("bills", "silver")]), &both);
        assert!(beside.contains("also holds the pool bills"), "{beside}");
        let beside = refused(&state(&[("orders", "gold")]), &both);
        assert!(beside.contains("nacre slo pool bills gold"), "{beside}");
    }
}
