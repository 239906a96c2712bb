//! Miss-ratio curves: the fraction of requests that a cache of each size misses, and how to divide
//! memory among caches by these curves.
//!
//! The cache-isolation application of the sRoute paper (section 5.3) chooses the cache size of each
//! tenant in this way.

mod allocate;
mod curve;
mod divide;
mod exact;
mod last_uses;
mod profile;
mod sampled;

pub use allocate::{allocate_by_hull, allocate_exactly};
pub use curve::MissRatioCurve;
pub use divide::{CacheDemand, divide_cache};
pub use exact::ExactCurve;
pub use profile::ReadProfile;
pub use sampled::Shards;
