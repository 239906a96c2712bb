//! The side of whoever asks: find the authority, ask it, have it replaced if it is silent.

mod authority_client;
mod record_cache;
mod transport;

pub use authority_client::{AuthorityClient, RECOVER_PATIENCE};
pub use record_cache::{Known, RecordCache};
pub use transport::{HostNodes, HostTransport, answer_within};
