//! Where the cluster keeps an object: its placement group, and that group's primary OSD.

use nacre_object::{Error, ObjectId, Result};
use serde::{Deserialize, Serialize};

use crate::cluster::failure::operation_failed;
use crate::ffi::Cluster;

/// The placement group and OSDs of an object, as of one epoch of the cluster's map.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Location {
    /// The epoch of the cluster's OSD map.
    pub epoch: u64,
    /// The placement group, as `2.1f`.
    #[serde(rename = "pgid")]
    pub placement_group: String,
    /// The OSD that serves the group; −1 while no OSD serves it.
    #[serde(rename = "acting_primary")]
    pub primary: i32,
    /// The OSDs that keep it.
    pub acting: Vec<i32>,
}

#[derive(Serialize)]
struct MapCommand<'a> {
    prefix: &'static str,
    format: &'static str,
    pool: &'a str,
    object: &'a str,
    nspace: &'a str,
}

/// Asks the monitors; waits.
pub fn ask(cluster: &Cluster, pool: &str, object: &ObjectId) -> Result<Location> {
    let command = MapCommand {
        prefix: "osd map",
        format: "json",
        pool,
        object: object.name.as_str(),
        nspace: object.pool.as_str(),
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::corrupt(format!("the monitors' answer cannot be decoded: {error}"))
            .hint("check the cluster with `nacre ceph check`")
    };
    let command = serde_json::to_string(&command).map_err(|error| unreadable(&error))?;
    let answer = cluster.ask(&command).map_err(operation_failed)?;
    serde_json::from_slice(&answer).map_err(|error| unreadable(&error))
}
