//! The asking end: sessions, and the remote store.

mod call;
mod driver;
mod lanes;
mod link;
mod options;
mod remote_store;
mod room;
mod session;
mod shared;
mod table;
mod ticket;
mod watching;

pub use options::SessionOptions;
pub use remote_store::RemoteStore;
pub use session::{NodeInfo, Session};
