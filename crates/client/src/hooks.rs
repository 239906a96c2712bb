//! The hooks that every process of a cluster has.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_registry::Hooks;
#[cfg(feature = "programs")]
use {
    nacre_balance::BalancerHook,
    nacre_channels::channels_class,
    nacre_log::log_class,
    nacre_object::NativeClass,
    nacre_registry::{ClassHook, MapHook, events_class, map_class},
    nacre_resource::{CapabilityHook, FileTypeHook},
    nacre_route::{ControlHook, RouteHook, WaypointHook, copied_class, routed_class},
    nacre_slo::OrderHook,
};

/// The classes in Rust that every node has.
#[cfg(feature = "programs")]
pub fn native_classes() -> [NativeClass; 6] {
    [map_class(), events_class(), log_class(), channels_class(), routed_class(), copied_class()]
}

/// The hooks of a process that runs no programs. It does check the programs that it puts.
#[cfg(feature = "programs")]
pub fn hooks(clock: Arc<dyn Clock>) -> Hooks {
    Hooks::new()
        .with(class_hook(Arc::clone(&clock)))
        .with(MapHook)
        .with(BalancerHook::new(Arc::clone(&clock)))
        .with(FileTypeHook::new(Arc::clone(&clock)))
        .with(CapabilityHook::new(Arc::clone(&clock)))
        .with(OrderHook::new(Arc::clone(&clock)))
        .with(RouteHook::new(Arc::clone(&clock)))
        .with(ControlHook::new(Arc::clone(&clock)))
        .with(WaypointHook::new(clock))
}

/// The hooks of a process that cannot check programs, and so cannot put any.
#[cfg(not(feature = "programs"))]
pub fn hooks(_: Arc<dyn Clock>) -> Hooks {
    Hooks::new()
}

/// The hook of classes, which knows the names that native classes have.
#[cfg(feature = "programs")]
pub fn class_hook(clock: Arc<dyn Clock>) -> ClassHook {
    let native = native_classes().iter().map(|class| class.name().clone()).collect();
    ClassHook::new(clock, native)
}
