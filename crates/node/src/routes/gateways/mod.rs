//! Routes on gateways to Ceph. RADOS keeps all objects, and every gateway can reach all of them. So
//! one gateway, the *router*, decides about all IO that rules concern, and caches reads. The other
//! gateways forward to it such IO, and all IO on objects of cached pools. All other IO goes straight
//! to RADOS.
//!
//! 1. [`registry`]: the map `route-gateways` names the gateways and the router.
//! 2. [`membership`]: a gateway enters the map before it serves. It follows the map `routes`, and
//!    acknowledges each epoch once it forwards IO that the rules of this epoch concern.
//! 3. [`claim`]: one gateway becomes the router under a lease. It shuts the former router out of
//!    the Ceph cluster before it looks for routed bytes.
//! 4. [`forward`]: sends IO to the router.
//!
//! # Invariants
//!
//! - The router installs the rules of an epoch, and caches the pools of its settings, only after every
//!   other gateway has acknowledged this epoch, or has been shut out of the Ceph cluster. So no gateway
//!   passes IO to RADOS that a rule sends elsewhere, and no change passes the cache by.
//! - A router that may have been replaced answers nothing from its cache (`cache/router_lease.rs`).
//! - Before a router serves, no operation of a former router can have an effect any more
//!   ([`RadosEngine::shut_out`](nacre_rados::RadosEngine::shut_out)).
//! - A gateway that was shut out ends, and is started anew with a new connection.

mod claim;
mod forward;
mod membership;
mod registry;

pub(super) use self::forward::{Router, answer};
pub(crate) use self::membership::Gateways;
