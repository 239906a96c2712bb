//! The client of a log: it appends, reads, follows, fills and trims.

mod append;
mod appender;
mod burial;
mod follow;
mod log;
mod options;
mod positions;
mod reader;
mod removal;
mod settle;
mod suspects;
mod view_cache;
mod write_queues;

pub use follow::Follow;
pub use log::Log;
pub use options::{Entry, LogOptions, LogStat, ReadSlot};
pub(crate) use view_cache::{Issued, ViewCache};
