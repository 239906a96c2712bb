//! Caches of a storage node: they answer reads without the engine, and keep tenants apart (sRoute,
//! section 5.3). On Ceph one gateway caches: the router, to which the others forward all IO on
//! objects of cached pools.
//!
//! The entry `caches` of the map `routes` ([`settings`]) says which pools are cached, and how each
//! node divides its memory: one cache for all tenants, or a cache for each. Without this entry
//! nothing is cached.
//!
//! 1. [`layer`]: the layer of the IO path that answers reads. Its position in the path is in
//!    [`io_path`](crate::io_path).
//! 2. [`changes`]: notices changes, so that no read gets old bytes.
//! 3. [`block`] and [`blocks`]: the parts into which a stream is divided, and a cache of them.
//! 4. [`node_cache`]: the caches of all tenants, and how each tenant reads. Their miss-ratio curves
//!    say how to divide the memory.
//! 5. [`follow`]: follows the map. [`report`] and [`metrics`] say what the caches do.
//!
//! # Invariants
//!
//! - A read returns no bytes from before an acknowledged change.
//! - On Ceph, settings are in force only after every other gateway forwards the IO on the cached
//!   pools ([`Gateways::agree`](crate::routes::Gateways)), and the router answers from the cache only
//!   while no other gateway can have replaced it ([`router_lease`]).
//! - The cache has only bytes that the engine has answered a read with. The engine answers a read
//!   when all that the reply contains is durable. So what is read from the cache survives a crash.
//! - The caches of a node never have more bytes than the settings allow, and the memory that
//!   entries take in addition to their bytes counts.

mod block;
mod blocks;
mod changes;
mod follow;
#[cfg(test)]
mod gateway_tests;
mod layer;
mod metrics;
mod node_cache;
mod report;
mod router_lease;
mod settings;
#[cfg(test)]
mod tests;

pub use blocks::CACHED_BLOCK_BYTES;
pub use layer::CacheLayer;
pub use node_cache::NodeCache;
pub use report::{CacheReport, CacheUse, OTHER_TENANTS, TenantReads};
pub use settings::{CacheDivision, CacheSettings};

/// The name of this layer in rules (`bypass cache`).
pub(crate) const CACHE_LAYER: &str = "cache";

pub(crate) use follow::{follow, tick};
pub(crate) use metrics::CachesCollector;
