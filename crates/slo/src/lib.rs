//! Tail-latency promises in a running cluster: stores them, admits tenants, and orders requests so
//! that the promises are kept. Nodes and gateways use it.
//!
//! `nacre-qos` makes the decisions. This crate stores the data for them and carries them out:
//!
//! 1. [`profile_targets`] measures how much work requests are on each target.
//! 2. [`Slos`] admits tenants. Each decision is one commit of the map `slo` ([`SloState`]).
//!    [`advise`] says which tenants to move so that all of them fit, and [`Slos`] records the moves.
//! 3. Each node [follows](follow) that map, and its [`SloLayer`] orders the requests in front of an
//!    engine accordingly. An order program may replace the built-in order ([`OrderPrograms`],
//!    feature `programs`). Each node also tells its [network link](follow_link) how tenants share
//!    the link.
//! 4. Gateways to one Ceph cluster [divide](share_among_gateways) the promises of tenants among
//!    them.
//! 5. A gateway measures [direct traffic](NodeSlo::note_direct), which passes no gateway.
//! 6. [`NodeSlo::report`] reports the latencies of tenants, and [`NodeSlo::take_misses`] the missed
//!    promises.
//!
//! **Invariant:** each request is sent to the engine once or refused, even if the map changes
//! meanwhile.
//!
//! **Invariant:** while promises are not enforced, no request waits.

mod advice;
mod beside;
mod direct;
mod follower;
mod gateway_sharing;
mod layer;
mod limits;
mod links;
mod moves;
#[cfg(test)]
mod moves_tests;
mod order;
mod present;
mod profiler;
mod records;
mod slos;
mod traffic;
mod windows;

pub use advice::{Advice, AdvisedTarget, AdvisedTenant, Move, advise};
pub use direct::{DirectTraffic, IoCounts, Reading};
pub use follower::{follow, follow_link};
pub use gateway_sharing::share_among_gateways;
pub use layer::{
    BackgroundWork, Located, Miss, MissCause, NodeSlo, OneTarget, Parts, PoolTenantLayer, SloLayer,
    TargetOf, TargetReport, TenantReport,
};
pub use limits::{
    LINK_BYTES_PER_SECOND, MAX_OUTSTANDING, MAX_OUTSTANDING_IN_GROUPS, MAX_QUEUE_WAIT,
};
pub use moves::MovedTenant;
pub use order::{Candidate, NoOrders, Order, Orders};
#[cfg(feature = "programs")]
pub use order::{LiveOrders, OrderHook, OrderProgram, OrderPrograms};
pub use present::{PresentBound, present_bounds};
pub use profiler::{ProfilePlan, profile_targets, remove_objects};
pub use records::{
    FormerOverrides, MovedPool, Placement, Promise, PromisedFlow, SloState, StoredProfile,
    background_tenant, system_tenant,
};
pub use slos::{Ask, Outcome, Slos};
pub use traffic::{Rate, Spread, Traffic, placement_epoch};
pub use windows::{Latencies, LatencyWindows};
