//! Traces: recorded requests, in the formats of several tools.
//!
//! [`read`] reads a trace for `nacre slo curve` and for admission. Each format has its own module,
//! which describes its lines. At a malformed line, reading stops with an error that has the line's
//! number.

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
pub use record::{Trace, TraceLocation, TraceRecord};

#[cfg(test)]
mod tests;
