//! The binding of librados' C interface: the only unsafe code of the crate.
//!
//! What it offers is safe: an operation owns every buffer that librados writes to until librados has
//! said that it is done, whether anybody still waits or not. Statuses are librados' own (zero or
//! positive, or a negated errno); what they mean is said in [`crate::cluster::failure`].

mod cluster;
mod completion;
mod exec;
mod io_context;
mod leave;
mod library;
mod listing;
mod read;
mod watch;
mod write;

pub use cluster::{Cluster, Refusal};
pub use completion::Answer;
pub use exec::{Call, Called};
pub use io_context::IoContext;
pub use leave::leave_if_connected;
pub use library::Library;
pub use read::{Fetch, Fetched, Keep};
pub use watch::{Listener, WatchId};
pub use write::Change;

/// Parts of a compound operation. RADOS counts them in 16 bits: of more it would do those that are left of
/// the count, and say that all is done. Far fewer are as many as a request may take of an OSD at once.
pub const MAX_PARTS: usize = 4096;

const _: () = assert!(MAX_PARTS < u16::MAX as usize / 8);
