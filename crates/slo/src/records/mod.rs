//! What the map `slo` holds, one entry each, as JSON.
//!
//! | key | what it says |
//! | --- | --- |
//! | `enforce` | whether nodes order requests, or only measure them |
//! | `order` | the program that orders requests, if it is not the native order |
//! | `pool/POOL` | whose requests those on the objects of a pool are |
//! | `weight/TENANT` | the share of a tenant that was promised nothing |
//! | `target/TARGET` | what requests cost there ([`StoredProfile`]) |
//! | `tenant/TENANT` | what the tenant was promised ([`Promise`]) |

mod promise;
mod state;
mod stored_profile;

pub use promise::{Promise, PromisedFlow};
pub(crate) use state::{
    ENFORCE_KEY, ORDER_KEY, POOL_PREFIX, TARGET_PREFIX, TENANT_PREFIX, WEIGHT_PREFIX, encode,
};
pub use state::{SloState, background_tenant, system_tenant};
pub use stored_profile::StoredProfile;
