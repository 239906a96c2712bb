//! The entries of the map `slo`, which holds the promises of a cluster. Values are JSON.
//!
//! | key | value |
//! | --- | --- |
//! | `enforce` | whether nodes order requests, or only measure them |
//! | `order` | the program that orders requests; missing for the built-in order |
//! | `pool/POOL` | the tenant to which all requests on the objects of the pool belong |
//! | `weight/TENANT` | the share of a tenant without a promise |
//! | `target/TARGET` | how much work requests are on the target ([`StoredProfile`]) |
//! | `link/NODE` | the speed of the node's network link, in bytes a second |
//! | `tenant/TENANT` | the promise to the tenant ([`Promise`]) |
//! | `placement/TENANT` | the target to which the tenant's pools were moved ([`Placement`]) |

mod placement;
mod promise;
mod state;
mod stored_profile;

pub use placement::{FormerOverrides, MovedPool, Placement};
pub use promise::{Promise, PromisedFlow};
pub(crate) use state::{
    BACKGROUND_TENANT, ENFORCE_KEY, LINK_PREFIX, ORDER_KEY, PLACEMENT_PREFIX, POOL_PREFIX,
    TARGET_PREFIX, TENANT_PREFIX, WEIGHT_PREFIX, encode,
};
pub use state::{SloState, background_tenant, system_tenant};
pub use stored_profile::StoredProfile;
