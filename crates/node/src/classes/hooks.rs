//! The hooks of a process that runs programs.

use std::sync::Arc;

use nacre::{class_hook, hooks};
use nacre_balance::{BalancerHook, LivePolicies};
use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_registry::Hooks;
use nacre_resource::{FileTypeHook, LiveFileTypes};

/// The hooks of a process that runs classes with `runtime`, balancer policies and file types.
pub(super) fn hooks_of_node(
    clock: Arc<dyn Clock>,
    runtime: Arc<ClassRuntime>,
    policies: LivePolicies,
    file_types: LiveFileTypes,
) -> Hooks {
    let classes = class_hook(Arc::clone(&clock)).installing_into(runtime);
    let balancers = BalancerHook::new(Arc::clone(&clock)).installing_into(policies);
    let file_types = FileTypeHook::new(Arc::clone(&clock)).installing_into(file_types);
    hooks(clock).with(classes).with(balancers).with(file_types)
}
