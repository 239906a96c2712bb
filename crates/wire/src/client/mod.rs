//! The asking end: sessions, and the remote store.

mod call;
mod driver;
mod link;
mod options;
mod pace;
mod remote_store;
mod send_budget;
mod session;
mod session_pair;
mod shared;
mod table;
mod ticket;
mod watching;

pub use options::SessionOptions;
pub use remote_store::RemoteStore;
pub use session::{NodeInfo, Session};
