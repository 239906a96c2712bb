//! The settings of a [`LinkShaper`](super::LinkShaper): the speed of a node's link, and the tenants
//! that share it.

use std::collections::BTreeMap;

use nacre_object::{PoolName, TenantName};
use nacre_qos::Link;
use nacre_qos::scheduler::Share;

/// The speed of a node's link, and how tenants share it.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// The link. Both directions have its speed.
    pub link: Link,
    /// Pools whose requests count as those of one tenant, whoever sends them.
    pub pools: BTreeMap<PoolName, TenantName>,
    /// Tenants with a promise or a weight. All others have the weight 1.
    pub tenants: BTreeMap<TenantName, TenantLink>,
}

/// The share of a tenant in each direction of the link.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantLink {
    /// The share in the direction in which the node sends to the tenant.
    pub sent: Share,
    /// The share in the direction in which the node receives from the tenant.
    pub received: Share,
}

impl LinkSettings {
    /// A link of this speed that all tenants share equally.
    pub fn new(link: Link) -> Self {
        Self { link, pools: BTreeMap::new(), tenants: BTreeMap::new() }
    }
}
