//! The layers that a request passes on its way to an engine, in one list for every process that has an engine.
//!
//! From the outermost to the innermost:
//!
//! | layer | why it is there, and not elsewhere |
//! | --- | --- |
//! | grants | They are asked at the session, before any layer ([`Guard`](nacre_object::Guard)): nothing runs for somebody who may not ask for it. |
//! | [`HolderCheck`] | It is before all that reads or changes objects, so nothing happens to an object on a target that does not hold it. The process's own requests are placed already and do not pass it. |
//! | [`Herald`] | It reads the maps through the layers below, as calls of a class. |
//! | [`CatchUpLayer`] | It is before [`SendingLayer`], which must know the class that is called to know whether it sends. |
//! | [`SendingLayer`] | It marks an object before the engine changes it, so no message is forgotten in a crash. |
//! | [`SloLayer`] | It is next to the engine, since it orders what reaches the disk. What a layer above asks for is ordered, too, and holds no place at the engine while it waits. |
//! | engine | It keeps the data. |
//!
//! A layer to come has a place in this order: a switch above the holder check, since it says which target is asked.

use std::sync::Arc;

use nacre_channels::SendingLayer;
use nacre_object::{ClassCall, Stack, TargetName};
use nacre_placement::{HolderCheck, Placement};
use nacre_registry::Herald;
use nacre_slo::{NodeSlo, SloLayer};

use crate::classes::{CatchUpLayer, ClassService};

/// The path of requests of this process, which are placed, to an engine whose methods `classes` runs.
/// `slo` orders them.
pub fn own_path(engine: Stack, classes: &ClassService, slo: &Arc<NodeSlo>) -> Stack {
    let runtime = classes.runtime();
    let sends = Arc::new(move |call: &ClassCall| runtime.sends(call));
    engine
        .wrapped_by(|next| SloLayer::new(next, Arc::clone(slo)))
        .wrapped_by(|next| SendingLayer::new(next, sends, classes.courier()))
        .wrapped_by(|next| CatchUpLayer::new(next, classes.clone()))
        .wrapped_by(Herald::new)
}

/// The path of requests of others to the target `own`, whose objects are those that the placement gives it.
pub fn served_path(own_path: Stack, own: TargetName, placement: Placement) -> Stack {
    own_path.wrapped_by(|next| HolderCheck::new(next, own, placement))
}
