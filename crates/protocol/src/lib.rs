//! The messages: requests, replies and errors as bytes. They travel in sessions between clients and
//! nodes, and in calls of nacre's class inside an OSD.
//!
//! `proto/nacre/v1/*.proto` defines them. [`encode`] and [`decode`] convert between them and
//! nacre's own types.
//!
//! **Invariant:** received data is never trusted. [`decode`] checks names, bounds and numbers.
//! [`unfold`] detects messages that would take far more memory decoded than encoded.

/// The version of everything that client and object class must agree on: `osd.proto`, and the
/// behaviour of the native classes. Raise it with every change of either, so that neither
/// misunderstands the other.
pub const OSD_INTERFACE: u32 = 4;

pub mod decode;
pub mod encode;
pub mod proto;
pub mod unfold;
