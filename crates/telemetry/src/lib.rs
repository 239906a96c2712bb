//! What rooms record of themselves, cheaply enough for every request: counters and histograms.
//!
//! A room owns its instruments and records into them directly: no registry, no labels, no lock, a
//! few relaxed atomic additions. Whoever exports them (the node) reads them when it is asked.
//!
//! **Invariant:** nothing here knows a format, a clock or a socket.

mod counter;
mod histogram;

pub use counter::Counter;
pub use histogram::{Durations, Histogram, HistogramSnapshot, Sizes};
