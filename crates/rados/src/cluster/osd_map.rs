//! Decodes what the monitors report about OSDs and pools.

use nacre_object::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cluster::failure::operation_failed;
use crate::ffi::Cluster;

/// The cluster's map of one epoch.
#[derive(Debug, Clone, Deserialize)]
pub struct OsdMap {
    /// Which one.
    pub epoch: u64,
    /// The OSDs, by number.
    pub osds: Vec<OsdState>,
    /// The pools.
    pub pools: Vec<PoolState>,
}

/// An OSD in the map.
#[derive(Debug, Clone, Deserialize)]
pub struct OsdState {
    /// Its number.
    #[serde(rename = "osd")]
    pub id: i32,
    up: u8,
}

impl OsdState {
    /// Whether it serves.
    pub fn is_up(&self) -> bool {
        self.up != 0
    }
}

/// A pool in the map.
#[derive(Debug, Clone, Deserialize)]
pub struct PoolState {
    /// Its number.
    #[serde(rename = "pool")]
    pub id: i64,
    /// Its name.
    #[serde(rename = "pool_name")]
    pub name: String,
    #[serde(rename = "type")]
    kind: u8,
    /// Its placement groups.
    #[serde(rename = "pg_num")]
    pub placement_groups: u32,
    /// Copies of everything.
    pub size: u32,
    /// The least number of copies with which a placement group serves.
    pub min_size: u32,
}

impl PoolState {
    /// Whether the pool is replicated. Pools of other types have no omap.
    pub fn is_replicated(&self) -> bool {
        /// `pg_pool_t::TYPE_REPLICATED`.
        const REPLICATED: u8 = 1;
        self.kind == REPLICATED
    }
}

/// What an OSD reported about itself when it started.
#[derive(Debug, Clone, Deserialize)]
pub struct OsdMetadata {
    /// Its number.
    pub id: i32,
    /// Where it runs.
    #[serde(default)]
    pub hostname: String,
    /// The OSD's version of Ceph.
    #[serde(default, rename = "ceph_version_short")]
    pub ceph_version: String,
    /// The OSD's object store.
    #[serde(default, rename = "osd_objectstore")]
    pub object_store: String,
}

impl OsdMap {
    /// Asks the monitors; waits.
    ///
    /// # Errors
    /// Those of the cluster.
    pub fn ask(cluster: &Cluster) -> Result<Self> {
        ask(cluster, "osd dump")
    }
}

impl OsdMetadata {
    /// Asks the monitors about all OSDs; waits.
    ///
    /// # Errors
    /// Those of the cluster.
    pub fn ask_all(cluster: &Cluster) -> Result<Vec<Self>> {
        ask(cluster, "osd metadata")
    }
}

fn ask<T: DeserializeOwned>(cluster: &Cluster, prefix: &str) -> Result<T> {
    let command = serde_json::json!({ "prefix": prefix, "format": "json" }).to_string();
    let answer = cluster.ask(&command).map_err(operation_failed)?;
    serde_json::from_slice(&answer).map_err(|error| {
        Error::corrupt(format!("the monitors' answer cannot be decoded: {error}"))
            .hint("check the cluster with `nacre ceph check`")
    })
}
