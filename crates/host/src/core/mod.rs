//! The pure state machines of a host: which clients it may answer, and how a node takes over.

mod recovery;
mod serving;
mod takeover;

pub use recovery::{Recovery, Step};
pub use serving::{EpochRefusal, Machine, Serving};
pub use takeover::{CommandsOf, TakeoverCommand, TakeoverCore, TakeoverEvent};
