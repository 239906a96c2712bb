//! Profiles: how much of a device or a link one request takes.
//!
//! *Work* is the time, in seconds, for which a request alone keeps the device busy. A device does one second of work a
//! second, whatever the mix of its requests. Curves, bounds and token buckets count work.

mod bandwidth;
mod device;
mod link;

pub use device::{Dip, Profile, ProfileRow};
pub use link::{Link, LinkDirection};
