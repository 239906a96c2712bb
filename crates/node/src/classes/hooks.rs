//! The hooks of a process that runs programs.

use std::sync::Arc;

use nacre::{class_hook, hooks};
use nacre_balance::{BalancerHook, LivePolicies};
use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_registry::Hooks;

/// The hooks of a process that runs classes with `runtime`, and balancer policies.
pub(super) fn hooks_of_node(
    clock: Arc<dyn Clock>,
    runtime: Arc<ClassRuntime>,
    policies: LivePolicies,
) -> Hooks {
    let classes = class_hook(Arc::clone(&clock)).installing_into(runtime);
    let balancers = BalancerHook::new(Arc::clone(&clock)).installing_into(policies);
    hooks(clock).with(classes).with(balancers)
}
