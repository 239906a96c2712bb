//! The node: a process that stores objects or hosts sequencers. This crate also has the supervisor,
//! which runs a cluster of nodes on one machine, and [`LocalCluster`], a whole cluster in the
//! calling process.

mod balancer_profile;
mod cache;
mod call_rules;
mod calls;
mod ceph_pools;
mod classes;
mod completed;
mod device_limit;
mod free_ports;
mod guard;
mod io_path;
mod late_changes;
mod layouts;
mod lease;
#[cfg(test)]
mod limits_page_tests;
mod local;
mod log_tail;
mod membership;
pub mod metrics;
mod node;
mod node_lock;
mod node_log;
mod node_service;
mod osd_targets;
mod refusals;
mod roles;
mod routes;
mod scrape_targets;
mod slo_targets;
mod supervisor;
mod traces;

pub use balancer_profile::BalancerProfile;
pub use cache::{
    CACHED_BLOCK_BYTES, CacheDivision, CacheLayer, CacheReport, CacheSettings, CacheUse, NodeCache,
    OTHER_TENANTS, TenantReads,
};
pub use calls::{NodeCalls, gather_calls};
pub use ceph_pools::CephPools;
pub use classes::{ClassService, ProgramFailures, Served};
pub use free_ports::free_ports;
pub use layouts::{ClassLayout, LayoutChange, LayoutTask, Layouts, Phase, Walk};
pub use local::LocalCluster;
pub use node::{Node, NodeOptions};
pub use node_lock::NodeLock;
pub use node_log::{Level, NodeLog};
pub use node_service::{NODE_SERVICE, NodeReport, ObjectLocation};
pub use roles::{
    CEPH_POOLS_SERVICE, DamageReport, PlacePool, RadosReport, RefusalReport, SLO_SERVICE,
    STORAGE_SERVICE, ScrubReport, StorageReport, StrayReport, WatchRequest,
};
pub use routes::{
    ApplicationReport, AppliedProgram, AppliedRule, AppliedWaypoint, ControllerReport,
    CopiesStatus, CopyWay, EVERY_SWITCH, ErasureStatus, KnownPrograms, NodeSwitch, Onward,
    ROUTE_SERVICE, RouteMap, RoutePrograms, RouteProgress, RouteState, RouteStatus, RouteWay,
    RoutedLocations, StartedApplication, SwitchLayer, Waypoints, check_declared, check_put_by_hand,
    check_supported, check_supported_on_ceph, check_switches, check_waypoint, route_findings,
};
pub use scrape_targets::ScrapeTargets;
pub use slo_targets::{Profiling, SloTargets};
pub use supervisor::{
    NodeEnd, NodeState, SupervisedNode, SupervisedReport, Supervisor, ready_line, supervised_nodes,
};
