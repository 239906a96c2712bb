//! Profiles: how much work one request is for a device or a network link.
//!
//! *Work* is the time, in seconds, for which one request alone keeps the device busy. A device does
//! one second of work a second, for any mix of requests. Curves, bounds and token buckets are
//! measured in work.

mod bandwidth;
mod device;
mod link;

pub use device::{Dip, Profile, ProfileRow};
pub use link::{Link, LinkDirection};
