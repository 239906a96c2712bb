//! What the operator has stated about a node's link and about the tenants that share it.

use std::collections::BTreeMap;

use nacre_object::{PoolName, TenantName};
use nacre_qos::Link;
use nacre_qos::scheduler::Share;

/// The speed of a node's link, and how tenants share it.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// The link. Both directions have its speed.
    pub link: Link,
    /// Pools whose requests belong to one tenant, whoever sends them.
    pub pools: BTreeMap<PoolName, TenantName>,
    /// Tenants with a promise or a weight. All others have the weight 1.
    pub tenants: BTreeMap<TenantName, TenantLink>,
}

/// How a tenant shares the directions of the link.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantLink {
    /// What the node sends to the tenant.
    pub sent: Share,
    /// What the node receives from the tenant.
    pub received: Share,
}

impl LinkSettings {
    /// A link of this speed that all tenants share equally.
    pub fn new(link: Link) -> Self {
        Self { link, pools: BTreeMap::new(), tenants: BTreeMap::new() }
    }
}
