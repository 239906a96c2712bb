//! Entities: who may come in, and what each may do.
//!
//! An entity is an entry of the map `entities`: which certificate is its, its tenant, and its
//! [grants](Grant). Whatever a message asks for comes to one or more [`Need`]s, and it happens if
//! the entity's [`Grants`] cover all of them. Both are pure. Every node follows the map
//! ([`LiveEntities`]), so a commit is in force on a node as soon as the node hears of it, also for
//! sessions that are open.
//!
//! The system pool is reached through needs of its own: a grant on a map or a program opens exactly
//! the calls and objects by which that map or program is used, and nothing else there is open to
//! anybody without `admin`.

mod call_rules;
mod denials;
mod grant;
mod grants;
#[cfg(test)]
mod grants_tests;
mod handle;
mod live;
mod missing;
mod need;
mod record;
mod system_object;

pub use call_rules::{CallNeed, CallRule, CallRules};
pub use grant::{Grant, Right, Rights, Scope};
pub use grants::Grants;
pub use handle::{Entities, entities_map};
pub use live::{EntityStanding, LiveEntities};
pub use need::{Need, needs_of};
pub use record::Entity;
