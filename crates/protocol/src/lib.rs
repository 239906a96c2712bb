//! The messages of nacre: requests, replies and errors as bytes. Clients and nodes exchange them in
//! sessions; the engine on Ceph sends them in calls of nacre's class inside an OSD.
//!
//! `proto/nacre/v1/*.proto` defines them. [`encode`] and [`decode`] convert between them and
//! nacre's own types.
//!
//! **Invariant:** received data is never trusted. [`decode`] checks names, bounds and numbers.
//! [`unfold`] detects messages that would need far more memory after decoding than before.

/// The version of everything on which client and object class must agree: `osd.proto`, and the
/// behaviour of the native classes. Raise it with every change of either one, so that a client and
/// a class of different versions refuse each other.
pub const OSD_INTERFACE: u32 = 4;

pub mod decode;
pub mod encode;
pub mod proto;
pub mod unfold;
