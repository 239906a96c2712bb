//! The hooks of a process that runs programs.

use std::sync::Arc;

use nacre::{class_hook, hooks};
use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_registry::Hooks;

/// The hooks of a process that runs classes with `runtime`.
pub(super) fn hooks_of_node(clock: Arc<dyn Clock>, runtime: Arc<ClassRuntime>) -> Hooks {
    hooks(Arc::clone(&clock)).with(class_hook(clock).installing_into(runtime))
}
