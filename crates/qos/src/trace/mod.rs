//! Traces: requests that were recorded, in the formats that people have.
//!
//! [`read`] reads one, for `nacre slo curve` and for admission. Each format has a file of its own, which says what its
//! lines are. A line that makes no sense ends the reading with an error that has the number of the line.

mod alibaba;
mod blkparse;
mod fields;
mod fio;
mod format;
mod msr;
mod nacre;
mod priority_meister;
mod reader;
mod record;
mod tencent;

pub use format::TraceFormat;
pub(crate) use format::one_second_clock;
pub use reader::read;
pub use record::{Place, Trace, TraceRecord};

#[cfg(test)]
mod tests;
