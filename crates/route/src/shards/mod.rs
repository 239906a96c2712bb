//! Miss-ratio curves: how many requests a cache of each size would miss, and how caches share memory by them.
//!
//! The cache-isolation application of the sRoute paper (section 5.3) sizes a cache for each tenant by such curves.

mod allocate;
mod curve;
mod exact;
mod last_uses;
mod sampled;

pub use allocate::{allocate_by_hull, allocate_exactly};
pub use curve::MissRatioCurve;
pub use exact::ExactCurve;
pub use sampled::Shards;
