//! The hooks of a process that runs programs.

use std::sync::Arc;

use nacre::{class_hook, hooks};
use nacre_balance::{BalancerHook, LivePolicies};
use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_registry::Hooks;
use nacre_resource::{CapabilityHook, FileTypeHook, LiveCapabilityPrograms, LiveFileTypes};
use nacre_route::{ControlHook, LiveControls, LiveRoutes, LiveWaypoints, RouteHook, WaypointHook};
use nacre_slo::{LiveOrders, OrderHook};

/// The live programs of a process that are not classes, by the kind of program.
#[derive(Debug, Clone, Default)]
pub(super) struct LivePrograms {
    pub policies: LivePolicies,
    pub file_types: LiveFileTypes,
    pub capabilities: LiveCapabilityPrograms,
    pub orders: LiveOrders,
    pub routes: LiveRoutes,
    pub controls: LiveControls,
    pub waypoints: LiveWaypoints,
}

/// The hooks of a process that runs classes with `runtime`, and other programs.
pub(super) fn hooks_of_node(
    clock: Arc<dyn Clock>,
    runtime: Arc<ClassRuntime>,
    live: LivePrograms,
) -> Hooks {
    let classes = class_hook(Arc::clone(&clock)).installing_into(runtime);
    let balancers = BalancerHook::new(Arc::clone(&clock)).installing_into(live.policies);
    let file_types = FileTypeHook::new(Arc::clone(&clock)).installing_into(live.file_types);
    let capabilities = CapabilityHook::new(Arc::clone(&clock)).installing_into(live.capabilities);
    let orders = OrderHook::new(Arc::clone(&clock)).installing_into(live.orders);
    let routes = RouteHook::new(Arc::clone(&clock)).installing_into(live.routes);
    let controls = ControlHook::new(Arc::clone(&clock)).installing_into(live.controls);
    let waypoints = WaypointHook::new(Arc::clone(&clock)).installing_into(live.waypoints);
    hooks(clock)
        .with(classes)
        .with(balancers)
        .with(file_types)
        .with(capabilities)
        .with(orders)
        .with(routes)
        .with(controls)
        .with(waypoints)
}
