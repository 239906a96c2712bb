//! A whole cluster in one process, without sockets. Programs that embed nacre use it, and so do
//! tests of programs.

mod cluster;
mod node;
mod sequencer;

pub use cluster::LocalCluster;
