//! The client's side: it finds the authority and asks it. If the authority is silent, the client
//! asks another node to replace it.

mod authority_client;
mod record_cache;
mod transport;

pub use authority_client::{AuthorityClient, RECOVER_PATIENCE};
pub use record_cache::{Known, RecordCache};
pub use transport::{HostNodes, HostTransport, answer_within};
