//! The layers that a request passes on its way to an engine, in one list for every process that has an engine.
//!
//! From the outermost to the innermost:
//!
//! | layer | why it is there, and not elsewhere |
//! | --- | --- |
//! | grants | They are asked at the session, before any layer ([`Guard`](nacre_object::Guard)): nothing runs for somebody who may not ask for it. |
//! | [`SwitchLayer`] | It says which target is asked, so it is above the check of who holds an object, and above all that acts on the object there. The process's own requests pass it, too: a method that a message calls must find routed bytes. |
//! | [`HolderCheck`] | It is before all that reads or changes objects, so nothing happens to an object on a target that does not hold it. The process's own requests are placed already and do not pass it. |
//! | [`ChangeFeed`] | It reads the maps through the layers below, as calls of a class. |
//! | [`CatchUpLayer`] | It is before [`SendingLayer`], which must know the class that is called to know whether it sends. |
//! | [`SendingLayer`] | It marks an object before the engine changes it, so no message is forgotten in a crash. |
//! | [`SloLayer`] | It is next to the device, since it orders what reaches the disk. What a layer above asks for is ordered, too, and holds no place at the engine while it waits. |
//! | [`DeviceLimitLayer`](crate::device_limit::DeviceLimitLayer) | It stands for a slower device, so nothing is between it and the engine. Demonstrations set it; usually it does nothing. |
//! | engine | It keeps the data. |
//!
//! A cache to come has its place below the switch, so that it keeps bytes under the name where they lie.

use std::sync::Arc;

use nacre_channels::SendingLayer;
use nacre_object::{ClassCall, Stack, TargetName};
use nacre_placement::{HolderCheck, Placement};
use nacre_registry::ChangeFeed;
use nacre_slo::{NodeSlo, SloLayer};

use crate::classes::{CatchUpLayer, ClassService};
use crate::routes::{NodeSwitch, SwitchLayer};

/// The path of requests of this process, which are placed, to an engine whose methods `classes` runs.
/// `slo` orders them.
pub fn own_path(engine: Stack, classes: &ClassService, slo: &Arc<NodeSlo>) -> Stack {
    let runtime = classes.runtime();
    let sends = Arc::new(move |call: &ClassCall| runtime.sends(call));
    engine
        .wrapped_by(|next| SloLayer::new(next, Arc::clone(slo)))
        .wrapped_by(|next| SendingLayer::new(next, sends, classes.courier()))
        .wrapped_by(|next| CatchUpLayer::new(next, classes.clone()))
        .wrapped_by(ChangeFeed::new)
}

/// The path of requests of others to the target `own`, whose objects are those that the placement gives it.
pub fn served_path(own_path: Stack, own: TargetName, placement: Placement) -> Stack {
    own_path.wrapped_by(|next| HolderCheck::new(next, own, placement))
}

/// A path of requests that may be sent elsewhere by the rules of `switch`.
pub fn switched_path(path: Stack, switch: &Arc<NodeSwitch>) -> Stack {
    path.wrapped_by(|next| SwitchLayer::new(next, Arc::clone(switch)))
}
