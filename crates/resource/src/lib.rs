//! Shared resources: named, typed state that one node serves at a time (Malacology, sections on the
//! shared resource and file type interfaces).
//!
//! A resource has a path, a *file type* and a bounded state. The file type is a program that gives
//! it methods. The node in charge, its *authority*, runs the methods one after another, and stores
//! a change before it answers. Epochs fence off former authorities, as [`nacre_host`] describes: a
//! node that takes over claims the resource's record. After that the store refuses every change of
//! the former authority.
//!
//! | module | holds |
//! | --- | --- |
//! | `name`, `record`, `stored` | the stored form of a resource |
//! | `capability/` | capability programs: the hook, the VM, the active ones (feature `programs`) |
//! | `filetype/` | file types: the hook, the VM, the active ones (feature `programs`) |
//! | `authority/` | what a node runs to serve resources and grant capabilities (feature `programs`) |
//! | `client`, `question` | the client, and the requests that it sends |
//! | `holding` | the client that holds a capability and runs the methods itself (feature `programs`) |

#[cfg(feature = "programs")]
mod authority;
#[cfg(feature = "programs")]
mod capability;
mod client;
#[cfg(feature = "programs")]
mod filetype;
#[cfg(feature = "programs")]
mod holding;
pub mod limits;
mod name;
mod question;
mod record;
mod stored;

#[cfg(feature = "programs")]
pub use authority::{Asker, LendingCounts, ResourceEnv, ResourceHost, ResourceUse};
#[cfg(feature = "programs")]
pub use capability::{
    CapabilityHook, CapabilityPolicies, CapabilityProgram, LiveCapabilityPrograms,
};
pub use client::{Resource, Resources};
#[cfg(feature = "programs")]
pub use filetype::{
    Access, FileType, FileTypeHook, LiveFileTypes, Locking, MethodCall, Outcome, Survival,
    native_type,
};
pub use name::ResourceName;
pub use question::{RESOURCE_SERVICE, ResourceStat};
pub use record::ResourceRecord;
pub use stored::{Stored, Told};
