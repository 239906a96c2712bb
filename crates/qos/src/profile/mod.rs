//! Profiles: how much of a device's or a link's time one request takes.
//!
//! *Work* is the time, in seconds, for which a request alone keeps the device busy. A device does
//! one second of work a second, for any mix of requests. Curves, bounds and token buckets are in
//! units of work.

mod bandwidth;
mod device;
mod link;

pub use device::{Dip, Profile, ProfileRow};
pub use link::{Link, LinkDirection};
