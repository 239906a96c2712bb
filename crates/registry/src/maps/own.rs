//! The maps that nacre keeps for itself. Clients and nodes act on their content.
//!
//! **Invariant:** only nodes and administrators write these maps. No other entity can, whether by a
//! commit, by a program bound to the map, or by a program of another map that triggers a commit.
//! There is one exception: an entity that may write a program may write the program's entry in
//! `programs`.

use nacre_object::{Error, MapName, Result};

/// Which pools there are.
pub const POOLS_MAP: &str = "pools";
/// Which nodes there are.
pub const NODES_MAP: &str = "nodes";
/// Which programs there are, and which versions are active.
pub const PROGRAMS_MAP: &str = "programs";
/// The reports of nodes about the programs that they made live.
pub const PROGRAM_STATUS_MAP: &str = "program-status";
/// Which entities are admitted, and what each may do. Only administrators may read this map.
pub const ENTITIES_MAP: &str = "entities";
/// Which layouts classes have and are brought into, which nodes do.
pub const LAYOUTS_MAP: &str = "layouts";
/// Which policy balances the cluster, and how often.
pub const BALANCER_MAP: &str = "balancer";
/// Which tail latencies tenants were promised, and what requests cost.
pub const SLO_MAP: &str = "slo";
/// How the gateways to one Ceph cluster divide the tenants' promised shares.
pub const SLO_CLAIMS_MAP: &str = "slo-claims";
/// Which rules send IO elsewhere, and which applications make such rules.
pub const ROUTES_MAP: &str = "routes";
/// Which node runs the control programs of routes, and what these keep between their runs.
pub const ROUTE_CONTROL_MAP: &str = "route-control";

/// Which gateways to one Ceph cluster there are, and which of them routes IO by the rules.
pub const ROUTE_GATEWAYS_MAP: &str = "route-gateways";

const OWN_MAPS: [&str; 12] = [
    POOLS_MAP,
    NODES_MAP,
    PROGRAMS_MAP,
    PROGRAM_STATUS_MAP,
    ENTITIES_MAP,
    LAYOUTS_MAP,
    BALANCER_MAP,
    SLO_MAP,
    SLO_CLAIMS_MAP,
    ROUTES_MAP,
    ROUTE_CONTROL_MAP,
    ROUTE_GATEWAYS_MAP,
];
/// The name of a log's map is this prefix and the log's name.
pub const LOG_MAP_PREFIX: &str = "log.";
/// The prefix of the names of resources' maps. After it comes the path of the resource, with dots
/// instead of slashes.
pub const RESOURCE_MAP_PREFIX: &str = "resource.";

/// Maps without secrets that every client reads: which pools, nodes and programs there are.
pub(crate) const COMMON_MAPS: [&str; 4] = [POOLS_MAP, NODES_MAP, PROGRAMS_MAP, PROGRAM_STATUS_MAP];

/// Whether a map is one of nacre's own.
pub(crate) fn is_own_map(map: &str) -> bool {
    OWN_MAPS.contains(&map)
}

/// The log whose view a map is.
pub(crate) fn log_of_map(map: &str) -> Option<&str> {
    map.strip_prefix(LOG_MAP_PREFIX)
}

/// Whether a map is that of a resource.
fn is_resource_map(map: &str) -> bool {
    map.starts_with(RESOURCE_MAP_PREFIX)
}

/// Whether clients and nodes act on a map's content. They act on nacre's own maps, on the views of
/// logs and on the maps of resources. A wrong entry there can crash these processes.
pub fn is_system_map(map: &MapName) -> bool {
    is_system(map.as_str())
}

fn is_system(map: &str) -> bool {
    is_own_map(map) || log_of_map(map).is_some() || is_resource_map(map)
}

/// Checks that a client may delete a map.
///
/// # Errors
/// `Invalid` for nacre's own maps, for the views of logs and for the maps of resources.
pub(super) fn check_deletable(map: &str) -> Result<()> {
    if let Some(log) = log_of_map(map) {
        return Err(Error::invalid(format!("the map {map} is the view of a log"))
            .hint(format!("remove the log: nacre log rm {log}")));
    }
    if is_resource_map(map) {
        return Err(Error::invalid(format!("the map {map} is a resource"))
            .hint("remove the resource: nacre resource rm PATH"));
    }
    if is_own_map(map) {
        return Err(Error::invalid(format!("the map {map} is one of nacre's own"))
            .hint("the cluster cannot work without it"));
    }
    Ok(())
}

/// Checks that a program of another map may trigger a commit to this map. Nodes carry out such
/// commits, and a node may commit to any map. So only this check protects the map.
///
/// # Errors
/// `Invalid` for nacre's own maps, for the views of logs and for the maps of resources.
pub(crate) fn check_triggered(map: &str) -> Result<()> {
    if is_system(map) {
        return Err(Error::invalid(format!("a program cannot trigger commits to the map {map}"))
            .hint(
                "the map is one of nacre's own or the view of a log; trigger commits to other maps",
            ));
    }
    Ok(())
}
