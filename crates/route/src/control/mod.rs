//! Control programs in Luau: they decide which rules an application has (the *control applications*
//! of the sRoute paper, section 5). The controller of a cluster calls each of them every second or
//! so.
//!
//! A program gets what the switches count, its settings, its state and its present rules. It
//! changes the rules with `insert` and `delete`, and the shares of the nodes' caches with `share`. It
//! sees no data of clients.
//!
//! **Invariant:** a run that fails changes neither rules nor state.

mod control_library;
mod control_program;
mod hook;
mod input;
mod interface;
mod setting;

pub use control_program::ControlProgram;
pub use hook::{ControlHook, LiveControls};
pub use input::{
    CacheLoad, CacheTenant, ControlInput, ControlOutput, ObjectLoad, SwitchRule, TargetLoad,
    TenantLoad, WaitingIo,
};
pub use setting::{Setting, Settings};
