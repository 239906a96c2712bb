//! The messages: what requests, replies and errors look like as bytes, wherever they travel: in
//! sessions between clients and nodes, and in calls of our class inside an OSD.
//!
//! They are written down in `proto/nacre/v1/*.proto`. [`encode`] and [`decode`] go between them and
//! nacre's own types.
//!
//! **Invariant:** nothing that comes in is believed: names, bounds and numbers are checked in
//! [`decode`].

pub mod decode;
pub mod encode;
pub mod proto;
