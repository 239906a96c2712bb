//! What rooms record of themselves: counters and histograms, cheaply enough for every request, and
//! spans of the requests that are traced.
//!
//! A room owns its instruments and records into them directly: no registry, no labels, no lock, a
//! few relaxed atomic additions. Whoever exports them (the node) reads them when it is asked. Spans
//! are different: they go to the process' [`Spans`], by the [`Trace`] their work belongs to.
//!
//! **Invariant:** nothing here knows a socket, and time is the clock's that it is given.

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
