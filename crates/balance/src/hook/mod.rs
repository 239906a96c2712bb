//! The hook of balancer policies: how a policy is checked, and how a node makes it live.

mod balancer_hook;
mod interface;

pub use balancer_hook::{BalancerHook, LivePolicies};
pub use interface::BALANCER_INTERFACE;
