//! The service by which a gateway says and chooses which RADOS pools hold pools of nacre.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `list` | – | a JSON object: for each pool with a RADOS pool of its own, the name of that RADOS pool |
//! | `main` | – | the name of the RADOS pool that holds all other pools |
//! | `place` | a [`PlacePool`] in JSON | – |

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{Error, PoolName, Result};
use nacre_rados::RadosEngine;
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};

/// The name of the service.
pub const CEPH_POOLS_SERVICE: &str = "ceph-pools";

/// A choice of the RADOS pool that holds a pool of nacre.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlacePool {
    /// The pool of nacre. It must be empty.
    pub pool: String,
    /// The RADOS pool; `None` for the main one.
    pub rados_pool: Option<String>,
}

/// Serves requests about the RADOS pools of one gateway's Ceph cluster.
#[derive(Debug)]
pub(super) struct CephPoolsService(pub RadosEngine);

#[async_trait]
impl Service for CephPoolsService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "list" => {
                let placed = self.0.placed_pools().await?.into_iter();
                let placed: BTreeMap<_, _> =
                    placed.map(|(pool, rados_pool)| (pool, rados_pool.name)).collect();
                let listed = serde_json::to_vec(&placed);
                listed.map(Bytes::from).map_err(|cause| Error::corrupt(cause.to_string()))
            }
            "main" => Ok(Bytes::from(self.0.main_rados_pool().to_owned())),
            "place" => {
                let request: PlacePool = serde_json::from_slice(&input)
                    .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))?;
                let pool = PoolName::new(request.pool)?;
                self.0.place_pool(&pool, request.rados_pool.as_deref()).await?;
                Ok(Bytes::new())
            }
            _ => {
                Err(Error::unsupported(format!("the service ceph-pools has no method {method:?}"))
                    .hint("run one release of nacre on clients and nodes"))
            }
        }
    }
}
