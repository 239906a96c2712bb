//! The specification of a store as code: one suite that every [`Store`](nacre_object::Store)
//! passes, a plain in-memory store to compare with, and faults to test stores under.
//!
//! An engine or a stack of layers is tested like this, with [`TestClasses`] as its class host:
//!
//! ```
//! # use std::sync::Arc;
//! # use nacre_clock::SystemClock;
//! use nacre_conformance::{MemoryStore, Subject, TestClasses, compare, run_all, seeds};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store = MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()));
//! let subject = Subject::watched(Arc::new(store));
//! run_all(&subject).await;
//! for seed in seeds(10) {
//!     compare(&subject, seed, 100).await;
//! }
//! # }
//! ```
//!
//! `NACRE_SEEDS=n` in the environment tries n times as many seeds; `NACRE_SEED=s` tries only the
//! seed `s`.

mod ceph_cluster;
mod chronicle;
mod counting_layer;
mod fault_control;
mod fault_layer;
pub mod faults;
mod faulty_store;
pub mod histories;
mod hostile_scripts;
mod meddling_store;
mod memory_object;
mod memory_store;
pub mod network;
pub mod ops;
mod peak_memory;
pub mod random;
mod seed_cases;
pub mod sequencers;
mod small_disk;
pub mod suite;
mod test_classes;
pub mod wait;
mod watch_hub;
pub mod workloads;

pub use ceph_cluster::{CephCluster, ceph_plugin_folder};
pub use chronicle::Chronicle;
pub use counting_layer::{CountingLayer, Passed};
pub use fault_control::FaultControl;
pub use fault_layer::FaultLayer;
pub use faults::Fault;
pub use faulty_store::FaultyStore;
pub use hostile_scripts::{HostileScript, hostile_scripts};
pub use meddling_store::MeddlingStore;
pub use memory_object::MemoryObject;
pub use memory_store::MemoryStore;
pub use peak_memory::peak_memory_kib;
pub use random::{compare, seeds};
pub use seed_cases::{SeedCases, find_planted_bug};
pub use small_disk::SmallDisk;
pub use suite::{Subject, run_all};
pub use test_classes::{FAILED_STATUS, TestClasses};
pub use watch_hub::MAX_WATCHES;
