//! Erasure coding of objects at rest: how the bytes of an object are divided into fragments, and the
//! note at the object that says where its fragments are.
//!
//! The runtime computes the fragments; see `routes/erasure` in crate `node`.

mod stripes;
mod stub;

pub use stripes::{FragmentSpan, Stripes};
pub use stub::{ERASURE_ATTRIBUTE, ErasureStub, FragmentPlace};
