//! The hooks that every process of a cluster has, in one list.

use std::sync::Arc;

use nacre_channels::channels_class;
use nacre_class::{ClassRuntime, NativeClass};
use nacre_clock::Clock;
use nacre_log::log_class;
use nacre_registry::{ClassHook, Hooks, MapHook, events_class, map_class};

/// The classes in Rust that every node has.
pub(crate) fn native_classes() -> [NativeClass; 4] {
    [map_class(), events_class(), log_class(), channels_class()]
}

/// The hooks of a process that runs no programs: it checks what it puts.
pub fn hooks(clock: Arc<dyn Clock>) -> Hooks {
    Hooks::new().with(class_hook(clock)).with(MapHook)
}

/// The hooks of a process that runs classes with `runtime`.
pub(crate) fn hooks_of_node(clock: Arc<dyn Clock>, runtime: Arc<ClassRuntime>) -> Hooks {
    hooks(Arc::clone(&clock)).with(class_hook(clock).installing_into(runtime))
}

fn class_hook(clock: Arc<dyn Clock>) -> ClassHook {
    let native = native_classes().iter().map(|class| class.name().clone()).collect();
    ClassHook::new(clock, native)
}
