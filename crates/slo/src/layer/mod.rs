//! The layer that orders requests before an engine, and measures how long each takes.
//!
//! ```text
//! request ─► SloLayer ─► NodeSlo: which tenant, which target ─► TargetQueue ─► engine
//!                            ▲                                      │
//!                       map `slo`                      scheduler, meters, device clock
//! ```
//!
//! - `node_slo` holds the state of the map and the queue of each target.
//! - `target_queue` puts requests through the scheduler of `nacre-qos`, one mutex for each target.
//! - `ordering` lets a program choose whose request is next, if the map names one.
//! - `background` distinguishes nacre's own background work from requests of tenants.
//! - `cost` estimates the work of a request before it runs, and determines it afterwards.
//! - `device_clock` divides the time of a busy target among the requests that it served.
//! - `parts` says which part of each promise a gateway uses.
//! - `drift` compares the time that requests take with the profile.
//! - `meter` counts latencies and missed promises of one tenant at one target.
//!
//! **Invariant:** requests of one tenant to one target reach the engine in the order in which they
//! came.

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
