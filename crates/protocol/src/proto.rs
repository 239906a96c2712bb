//! The messages as compiled from `proto/nacre/v1`; their documentation is there.

#![allow(missing_docs, clippy::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/nacre.v1.rs"));

/// The compiled `.proto` files, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nacre.v1.bin"));
