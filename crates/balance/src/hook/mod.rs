//! The hook of balancer policies: how a policy is checked, and how a node makes it live.

mod balancer_hook;
mod interface;
mod live_policies;

pub use balancer_hook::BalancerHook;
pub use interface::BALANCER_INTERFACE;
pub use live_policies::LivePolicies;
