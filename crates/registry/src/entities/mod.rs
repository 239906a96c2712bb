//! Entities: which clients a node admits, and what each may do.
//!
//! An entity is an entry of the map `entities`: its certificate, its tenant and its
//! [grants](Grant). Every message of a client needs one or more rights; each is a [`Need`]. The
//! node executes a message if the entity's [`Grants`] cover all these needs. This decision takes no
//! IO. Every node follows the map ([`LiveEntities`]). As soon as a node has read a commit, the
//! commit is in force there, also for open sessions.
//!
//! Requests on the system pool have needs of their own. A grant on a map or program allows exactly
//! the calls and objects by which clients use that map or program. Everything else in that pool
//! needs `admin`.

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
