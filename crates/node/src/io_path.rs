//! The layers that a request passes on its way to an engine. Every process that has an engine takes
//! its layers from here.
//!
//! From the outermost to the innermost:
//!
//! | layer | why it has this position |
//! | --- | --- |
//! | grants | The session checks them before any layer ([`Guard`](nacre_object::Guard)), so a request without the necessary right runs nothing. |
//! | [`PoolTenantLayer`] | If a pool is assigned to a tenant, this layer gives the tenant to all requests on the pool. So it comes before all layers that treat tenants differently. |
//! | [`SwitchLayer`] | It chooses the target, so it comes before the check that the target holds the object, and before all layers that act on the object. A gateway to Ceph that does not route forwards IO here to the gateway that does. The process's own requests pass it, too. For example, a method that receives a message may read bytes that a rule has sent to another node. Waypoints are part of it, so all layers below see bytes as they are stored. |
//! | [`HolderCheck`] | It comes before all layers that read or change objects, so nothing happens to an object on a target that does not hold it. The process's own requests do not pass it: the process sends them only for objects of its own target. |
//! | [`ChangeFeed`] | It watches service maps. It reads a map by calling a class, so the layers that serve such calls are below it. |
//! | [`CatchUpLayer`] | It comes before [`SendingLayer`], because that layer must know the called class to see whether the call sends messages. |
//! | [`SendingLayer`] | It marks an object that will send messages before the engine changes the object, so no message is lost in a crash. |
//! | [`CacheLayer`] | It is below the switch, so it sees the object that really keeps the bytes. It is above the SLO layer: a read that the cache answers does not use the device, so it must neither wait for the device nor count against its tenant. All requests to the engine pass it, so it notices all changes. Until the cluster turns caches on, it answers nothing; of gateways to Ceph, only the one that routes ever does. A rule may send reads past it; they take a second path with all layers but this one. |
//! | [`SloLayer`] | It is next to the device, because it orders the requests that reach the disk. It also orders the requests of the layers above. A request that waits here does not occupy the engine. |
//! | [`DeviceLimitLayer`](crate::device_limit::DeviceLimitLayer) | It simulates slower devices, so no other layer is between it and the engine. Demonstrations set limits; otherwise it does nothing. |
//! | engine | It keeps the data. |

use std::sync::Arc;

use nacre_channels::SendingLayer;
use nacre_object::{ClassCall, Stack, TargetName};
use nacre_placement::{HolderCheck, Placement};
use nacre_registry::ChangeFeed;
use nacre_slo::{NodeSlo, PoolTenantLayer, SloLayer};

use crate::cache::{CacheLayer, NodeCache};
use crate::classes::{CatchUpLayer, ClassService};
use crate::routes::{NodeSwitch, Onward, SwitchLayer};

/// The layers for this process's own requests to an engine whose methods `classes` runs. These
/// requests are only for objects of this target, so no layer checks their placement. `slo` orders
/// them. A process without `caches` caches nothing.
pub fn own_path(
    engine: Stack,
    classes: &ClassService,
    slo: &Arc<NodeSlo>,
    caches: Option<&Arc<NodeCache>>,
) -> Stack {
    let runtime = classes.runtime();
    let sends = Arc::new(move |call: &ClassCall| runtime.sends(call));
    let ordered = engine.wrapped_by(|next| SloLayer::new(next, Arc::clone(slo)));
    let cached = match caches {
        Some(caches) => ordered.wrapped_by(|next| CacheLayer::new(next, Arc::clone(caches))),
        None => ordered,
    };
    cached
        .wrapped_by(|next| SendingLayer::new(next, sends, classes.courier()))
        .wrapped_by(|next| CatchUpLayer::new(next, classes.clone()))
        .wrapped_by(ChangeFeed::new)
}

/// The layers for other processes' requests to the target `own`. The target serves only the objects
/// that the placement gives it.
pub fn served_path(own_path: Stack, own: TargetName, placement: Placement) -> Stack {
    own_path.wrapped_by(|next| HolderCheck::new(next, own, placement))
}

/// A path whose requests the rules of `switch` may send elsewhere. `slo` knows the tenants of pools.
pub fn switched_path(onward: Onward, switch: &Arc<NodeSwitch>, slo: &Arc<NodeSlo>) -> Stack {
    let Onward { usual, past_cache } = onward;
    let behind = |usual| Onward { usual, past_cache };
    usual
        .wrapped_by(|usual| SwitchLayer::new(behind(usual), Arc::clone(switch)))
        .wrapped_by(|next| PoolTenantLayer::new(next, Arc::clone(slo)))
}
