//! The messages: what requests, replies and errors look like as bytes, wherever they travel: in
//! sessions between clients and nodes, and in calls of our class inside an OSD.
//!
//! They are written down in `proto/nacre/v1/*.proto`. [`encode`] and [`decode`] go between them and
//! nacre's own types.
//!
//! **Invariant:** nothing that comes in is believed: names, bounds and numbers are checked in
//! [`decode`]; what would take far more memory decoded than encoded is found out before, in [`unfold`].

/// What client and object class must agree on: `osd.proto`, and what the native classes do. Whoever
/// changes either counts this up, so that neither takes the other for what it is not.
pub const OSD_INTERFACE: u32 = 4;

pub mod decode;
pub mod encode;
pub mod proto;
pub mod unfold;
