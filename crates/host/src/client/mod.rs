//! The client of a hosted state machine. It finds the node that serves the machine and sends it
//! requests. If that node is silent, the client asks another node to take over.

mod authority_client;
mod record_cache;
mod transport;

pub use authority_client::{AuthorityClient, RECOVER_PATIENCE};
pub use record_cache::{CachedRecord, RecordCache};
pub use transport::{HostNodes, HostTransport, answer_within};
