//! A whole cluster in one process, without sockets. Applications that embed nacre use it, and so do
//! the tests of classes and other programs.

mod cluster;
mod node;
mod sequencer;

pub use cluster::LocalCluster;
