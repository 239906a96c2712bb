//! A whole cluster in one process, without sockets, for programs that embed nacre and for tests of programs.

mod cluster;
mod node;
mod sequencer;

pub use cluster::LocalCluster;
