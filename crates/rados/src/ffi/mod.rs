//! The binding of librados' C interface: the only unsafe code of the crate.
//!
//! Its interface is safe: an operation owns every buffer that librados writes to until librados
//! reports the end of the operation, even if the caller has stopped waiting. Functions return
//! librados' statuses (zero or positive, or a negated errno), which [`crate::cluster::failure`]
//! explains.

mod cluster;
mod completion;
mod exec;
mod exit;
mod io_context;
mod library;
mod listing;
mod read;
mod watch;
mod write;

pub use cluster::{Cluster, Refusal};
pub use completion::Answer;
pub use exec::{Call, Called};
pub use io_context::IoContext;
pub use library::Library;
pub use read::{Fetch, Fetched, Keep};
pub use watch::{Listener, WatchId};
pub use write::Change;

/// The greatest number of parts of a compound operation. RADOS counts the parts in 16 bits; with
/// more parts, it would do only some of them and report success. This lower bound also limits how
/// much work one request gives an OSD.
pub const MAX_PARTS: usize = 4096;

const _: () = assert!(MAX_PARTS < u16::MAX as usize / 8);
