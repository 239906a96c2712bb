//! The layer that orders requests before an engine, and measures how long each takes.
//!
//! ```text
//! request ─► SloLayer ─► NodeSlo: whose, and for which target ─► TargetQueue ─► engine
//!                            ▲                                       │
//!                       map `slo`                       scheduler, meters, device clock
//! ```
//!
//! - `node_slo` holds what the map says and the queue of each target.
//! - `target_queue` puts requests through the scheduler of `nacre-qos`, one mutex for each target.
//! - `ordering` has a program choose whose request is next, if the map names one.
//! - `background` tells nacre's own work in the background from requests of tenants.
//! - `cost` says how much work a request is before it runs, and after.
//! - `device_clock` divides the time of a busy target among the requests it had.
//! - `parts` says how much of each promise a gateway uses.
//! - `drift` compares what requests take with the profile.
//! - `meter` counts latencies and missed promises of one tenant at one target.
//!
//! **Invariant:** requests of one tenant to one target reach the engine in the order they came in.

mod background;
mod cost;
mod device_clock;
mod drift;
mod latency_histogram;
mod meter;
mod node_slo;
mod ordering;
mod parts;
mod report;
mod slo_layer;
mod target_queue;
mod tenant;

pub use background::BackgroundWork;
pub use meter::{Miss, MissCause};
pub use node_slo::{Located, NodeSlo, OneTarget, TargetOf};
pub use parts::Parts;
pub use report::{TargetReport, TenantReport};
pub use slo_layer::SloLayer;
