//! The layers that a request passes on its way to an engine, in one list for every process that has
//! an engine.
//!
//! From the outermost to the innermost:
//!
//! | layer | why it is at this place |
//! | --- | --- |
//! | grants | The session checks them before any layer ([`Guard`](nacre_object::Guard)), so nothing runs for a caller without the right to it. |
//! | [`SwitchLayer`] | It chooses the target, so it comes before the check that the target holds the object, and before all layers that act on the object. The process's own requests pass it, too: a method that a message calls must find routed bytes. |
//! | [`HolderCheck`] | It comes before all layers that read or change objects, so nothing happens to an object on a target that does not hold it. The process's own requests are placed already and do not pass it. |
//! | [`ChangeFeed`] | It reads the maps through the layers below, as calls of a class. |
//! | [`CatchUpLayer`] | It comes before [`SendingLayer`], which can tell whether a call sends messages only if it knows the called class. |
//! | [`SendingLayer`] | It marks an object before the engine changes it, so no message is forgotten in a crash. |
//! | [`SloLayer`] | It is next to the device, because it orders the requests that reach the disk. It also orders the requests of the layers above. A request that waits here does not occupy the engine. |
//! | [`DeviceLimitLayer`](crate::device_limit::DeviceLimitLayer) | It simulates a slower device, so no other layer is between it and the engine. Demonstrations set its limit; otherwise it does nothing. |
//! | engine | It keeps the data. |
//!
//! A future cache belongs below the switch, so that it stores bytes under the name of the object in
//! which they lie.

use std::sync::Arc;

use nacre_channels::SendingLayer;
use nacre_object::{ClassCall, Stack, TargetName};
use nacre_placement::{HolderCheck, Placement};
use nacre_registry::ChangeFeed;
use nacre_slo::{NodeSlo, SloLayer};

use crate::classes::{CatchUpLayer, ClassService};
use crate::routes::{NodeSwitch, SwitchLayer};

/// The path of this process's own requests to an engine whose methods `classes` runs. These
/// requests are placed already. `slo` orders them.
pub fn own_path(engine: Stack, classes: &ClassService, slo: &Arc<NodeSlo>) -> Stack {
    let runtime = classes.runtime();
    let sends = Arc::new(move |call: &ClassCall| runtime.sends(call));
    engine
        .wrapped_by(|next| SloLayer::new(next, Arc::clone(slo)))
        .wrapped_by(|next| SendingLayer::new(next, sends, classes.courier()))
        .wrapped_by(|next| CatchUpLayer::new(next, classes.clone()))
        .wrapped_by(ChangeFeed::new)
}

/// The path of other processes' requests to the target `own`. This target serves only the objects
/// that the placement gives it.
pub fn served_path(own_path: Stack, own: TargetName, placement: Placement) -> Stack {
    own_path.wrapped_by(|next| HolderCheck::new(next, own, placement))
}

/// A path whose requests the rules of `switch` may send elsewhere.
pub fn switched_path(path: Stack, switch: &Arc<NodeSwitch>) -> Stack {
    path.wrapped_by(|next| SwitchLayer::new(next, Arc::clone(switch)))
}
