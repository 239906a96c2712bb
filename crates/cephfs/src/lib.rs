//! CephFS: requests to the file system of a Ceph cluster and to its metadata servers (MDS).
//! `nacre balancer cephfs` manages balancer policies with this crate, and `nacre-bench experiment`
//! measures MDSs with it.
//!
//! | file | holds |
//! | --- | --- |
//! | `file_system` | requests to Ceph: the map, the ranks' loads, the cluster log, policy objects |
//! | `fragments` | which rank serves which directory fragment |
//! | `client` | a client that mounts the file system, and reads the counters of MDSs |
//! | `counters` | the counters of a rank |
//! | `ffi` | the binding of libcephfs, which is loaded on first use; the only unsafe code |

mod client;
mod counters;
#[allow(unsafe_code, reason = "the binding of a C library; see the module")]
mod ffi;
mod file_system;
mod fragments;

pub use client::CephFsClient;
pub use counters::RankCounters;
pub use file_system::{CephFs, FsMap, Rank, Reports};
pub use fragments::{Subtrees, meta_load_of, rates_of, units_of};
