//! The layer in front of an engine that orders requests so that latency promises are kept, and
//! measures how long each request takes.
//!
//! ```text
//! request ─► SloLayer ─► NodeSlo: which tenant, which target ─► TargetQueue ─► engine
//!                            ▲                                      │
//!                       map `slo`                      scheduler, meters, device clock
//! ```
//!
//! - `node_slo` holds the state of the map and the queue of each target.
//! - `target_queue` passes requests through the scheduler of `nacre-qos`, with one mutex for each
//!   target.
//! - `ordering` lets a program choose whose request is next, if the map names one.
//! - `background` recognises nacre's own background work.
//! - `cost` estimates the work of a request before it runs.
//! - `device_clock` divides the time of a busy target among the requests that it serves.
//! - `pool_tenant_layer` names the tenant of requests on pools that are assigned to one.
//! - `parts` says which fraction of each promise this gateway uses.
//! - `drift` compares the measured work of requests with the profile.
//! - `meter` counts latencies and missed promises of one tenant at one target.
//!
//! **Invariant:** requests of one tenant to one target reach the engine in the order in which they
//! arrived.

mod background;
mod cost;
mod device_clock;
mod drift;
mod latency_histogram;
mod meter;
mod node_slo;
mod ordering;
mod parts;
mod pool_tenant_layer;
mod report;
mod slo_layer;
mod target_queue;
mod tenant;

pub use background::BackgroundWork;
pub use meter::{Miss, MissCause};
pub use node_slo::{Located, NodeSlo, OneTarget, TargetOf};
pub use parts::Parts;
pub use pool_tenant_layer::PoolTenantLayer;
pub use report::{TargetReport, TenantReport};
pub use slo_layer::SloLayer;
