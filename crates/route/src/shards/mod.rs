//! Miss-ratio curves: the share of requests that a cache of each size misses, and how caches share
//! memory by these curves.
//!
//! The cache-isolation application of the sRoute paper (section 5.3) uses such curves to choose the
//! size of each tenant's cache.

mod allocate;
mod curve;
mod exact;
mod last_uses;
mod sampled;

pub use allocate::{allocate_by_hull, allocate_exactly};
pub use curve::MissRatioCurve;
pub use exact::ExactCurve;
pub use sampled::Shards;
