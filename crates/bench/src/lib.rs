//! `nacre-bench`: measures nacre against the software that people would use instead.
//!
//! Every bench runs nacre and its baseline in turns, in one run, on the same machine and disk. It
//! reports [`Figure`]s: nacre's value, the baseline's value, and their ratio. If the side that runs
//! first affects the other side, every second round runs in the opposite order. Absolute rates
//! drift on shared machines, but ratios within one run hold. Each side is measured several times,
//! and the bench reports the medians.
//!
//! **Invariants.** A worker waits until its operation is durable before it begins the next one.
//! Both sides move the same bytes, with the same number of workers. Nodes are real processes in a
//! scratch folder, which is removed when the bench ends.

mod append;
mod balance_sequencers;
mod balancer_model;
mod balancer_tick;
mod bare_tree;
mod bench;
mod block_reads;
mod brados_call;
mod brados_choose;
mod brados_compile;
mod brados_corfu;
mod brados_scale;
mod brados_stripes;
mod call;
mod ceph_append;
mod ceph_call;
mod cpu_micros;
mod etcd_server;
mod figure;
mod group_commit;
mod handover;
mod limited_cluster;
mod migrate;
mod object;
mod paper_figure;
mod processes;
mod processor_quota;
mod processor_times;
mod propagate;
mod raw_file;
mod read;
mod recover;
mod redis_server;
mod route_caches;
mod route_direct;
mod route_figures;
mod route_recover;
mod route_replicas;
mod route_switch;
mod route_tail;
mod route_update;
mod scale;
mod scratch;
mod sequencer;
mod sequencer_caps;
mod server_process;
mod side;
mod slo_decide;
mod slo_keep;
mod slo_overhead;
mod slo_place;
mod slow_targets;
mod start;
mod target_bed;
mod thesis;
mod throttled_disk;
mod tool;
mod watch;
mod wire;

use nacre_load as load;

pub use bench::{Bench, DEFAULT_SCALE_OBJECTS, DEFAULT_SCALE_POOL_GIB, Setup, run};
pub use figure::{Better, Figure};
pub use paper_figure::{PaperFigure, PaperReport};
