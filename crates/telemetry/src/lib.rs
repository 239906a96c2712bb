//! Counters, histograms and spans, cheap enough to record for every request.
//!
//! A crate owns its instruments and records into them directly, with a few relaxed atomic additions
//! and without registry, labels or locks. The node reads and exports the values when Prometheus or
//! an operator requests them. Spans are recorded only for traced requests. The [`Trace`] of a
//! request refers to the process's [`Spans`], which stores them.
//!
//! **Invariant:** nothing here uses a socket, and time comes only from the clock that is passed in.

mod counter;
mod histogram;
mod id;
mod sampler;
mod span;
mod spans;
mod trace;

pub use counter::Counter;
pub use histogram::{Durations, Histogram, HistogramSnapshot, Sizes};
pub use id::{Id, NotAnId};
pub use sampler::{Sampler, Sampling};
pub use span::{Fields, Span, Value};
pub use spans::{MAX_SPANS, Order, Spans, TraceSummary};
pub use trace::{OpenSpan, Trace, traced};
