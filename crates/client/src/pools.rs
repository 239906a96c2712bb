//! The existing pools. The map `pools` has one entry for each pool, under the pool's name. The
//! entry is a [`PoolRecord`] in JSON.
//!
//! Engines accept any pool name. This module refuses pools that do not exist, so that a mistyped
//! name does not put objects where nobody looks for them.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use nacre_object::{Error, MapName, PoolName, Result};
use nacre_registry::{Change, MapState, Maps, POOLS_MAP};
use serde::{Deserialize, Serialize};

/// What the map `pools` says about a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRecord {
    /// On Ceph, the RADOS pool that holds the pool, if it is not the main one. The gateways' own
    /// table decides; this entry only shows it to clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rados_pool: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Pools {
    maps: Maps,
    /// The pools that this client knows to exist. Another client may have removed such a pool, but
    /// only while it was empty, so using it further loses nothing.
    known: Arc<Mutex<HashSet<PoolName>>>,
}

fn pools_map() -> MapName {
    MapName::new(POOLS_MAP).expect("a well-formed literal")
}

impl Pools {
    pub(crate) fn new(maps: Maps) -> Self {
        Self { maps, known: Arc::default() }
    }

    /// # Errors
    /// `NotFound`, with the pools there are; `Unavailable`.
    pub(crate) async fn check(&self, name: &PoolName) -> Result<()> {
        if *name == PoolName::system() || self.known().contains(name) {
            return Ok(());
        }
        let pools = self.list().await?;
        if !pools.contains(name) {
            let names: Vec<_> = pools.iter().map(PoolName::as_str).collect();
            let mut hint = format!("create it with `nacre pool create {name}`");
            if !names.is_empty() {
                hint += &format!("; the pools are {}", names.join(", "));
            }
            return Err(Error::not_found(format!("there is no pool {name}")).hint(hint));
        }
        self.known().insert(name.clone());
        Ok(())
    }

    pub(crate) async fn list(&self) -> Result<Vec<PoolName>> {
        let state = self.maps.get(&pools_map()).await?;
        state.entries.keys().map(PoolName::new).collect()
    }

    /// # Errors
    /// `Corrupt` if an entry is malformed; `Unavailable`.
    pub(crate) async fn records(&self) -> Result<BTreeMap<PoolName, PoolRecord>> {
        let state = self.maps.get(&pools_map()).await?;
        let record = |(name, value): (&String, &bytes::Bytes)| {
            let record = serde_json::from_slice(value).map_err(|cause| {
                Error::corrupt(format!("the record of the pool is malformed: {cause}")).on(name)
            })?;
            Ok((PoolName::new(name)?, record))
        };
        state.entries.iter().map(record).collect()
    }

    pub(crate) async fn create(&self, name: &PoolName, record: &PoolRecord) -> Result<()> {
        let value =
            serde_json::to_vec(record).map_err(|cause| Error::invalid(cause.to_string()))?;
        let missing = |state: &MapState| {
            let change = Change::set(name.as_str(), value.clone());
            Ok(if state.entries.contains_key(name.as_str()) { vec![] } else { vec![change] })
        };
        self.maps.update(&pools_map(), missing).await.map(drop)
    }

    pub(crate) async fn remove(&self, name: &PoolName) -> Result<()> {
        self.known().remove(name);
        self.maps.apply(&pools_map(), vec![Change::remove(name.as_str())]).await.map(drop)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<PoolName>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
