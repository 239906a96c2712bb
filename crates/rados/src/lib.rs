//! The engine on Ceph: a [`Store`](nacre_object::Store) over librados, with no daemon of ours.

mod options;

pub use options::RadosOptions;
