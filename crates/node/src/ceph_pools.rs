//! `CephPools`: asks the gateways which RADOS pools hold pools of nacre, and chooses the RADOS pool
//! of a new pool. The commands `nacre pool` and `nacre slo advise` use it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, RoleName, Sessions};
use nacre_object::{Error, ErrorKind, PoolName, Result};

use crate::{CEPH_POOLS_SERVICE, PlacePool};

/// A gateway answers a question within this time.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// A gateway waits 50 s until all processes have confirmed a new place, and does that again if it
/// must take the place back.
const PLACE_TIMEOUT: Duration = Duration::from_secs(120);

/// The gateways of a cluster on Ceph.
pub struct CephPools {
    sessions: Sessions,
    gateways: Vec<String>,
}

impl CephPools {
    /// The gateways; `None` if the cluster is not on Ceph.
    ///
    /// # Errors
    /// `Invalid` if the cluster file is invalid.
    pub fn of(file: &ClusterFile) -> Result<Option<Self>> {
        if file.engine().is_none() {
            return Ok(None);
        }
        let gateways = file.with_role(RoleName::Storage).map(|node| node.name.clone()).collect();
        Ok(Some(Self { sessions: Sessions::new(file)?, gateways }))
    }

    /// The pools that have a RADOS pool of their own, with the name of that RADOS pool.
    ///
    /// # Errors
    /// `Unavailable` if no gateway answers.
    pub async fn placed(&self) -> Result<BTreeMap<PoolName, String>> {
        let answer = self.ask("list", Bytes::new(), ASK_TIMEOUT).await?;
        let placed: BTreeMap<String, String> =
            serde_json::from_slice(&answer).map_err(|cause| {
                Error::corrupt(format!("the answer of a gateway is malformed: {cause}"))
                    .hint("run one release of nacre on clients and nodes")
            })?;
        placed
            .into_iter()
            .map(|(pool, rados_pool)| Ok((PoolName::new(pool)?, rados_pool)))
            .collect()
    }

    /// The RADOS pool that holds all other pools.
    ///
    /// # Errors
    /// `Unavailable` if no gateway answers.
    pub async fn main(&self) -> Result<String> {
        let answer = self.ask("main", Bytes::new(), ASK_TIMEOUT).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Creates a pool in a RADOS pool of its own. It is no error if it is there already.
    ///
    /// # Errors
    /// `Conflict` if the pool exists elsewhere; `NotFound` if there is no such RADOS pool;
    /// `Unavailable` if a process that uses the Ceph cluster does not confirm.
    pub async fn create(&self, cluster: &Cluster, pool: &PoolName, rados_pool: &str) -> Result<()> {
        if cluster.pools().await?.contains(pool) {
            let present = self.placed().await?.remove(pool);
            let present = match present {
                Some(present) => present,
                None => self.main().await?,
            };
            return match present == rados_pool {
                true => Ok(()),
                false => {
                    Err(Error::conflict(format!("the pool exists in the RADOS pool {present}"))
                        .on(pool)
                        .hint("nacre cannot move objects between RADOS pools: choose another name"))
                }
            };
        }
        self.place(pool, Some(rados_pool)).await?;
        cluster.create_pool_in(pool, rados_pool).await
    }

    /// Makes an empty pool lie in a RADOS pool; with `None` in the main one.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn place(&self, pool: &PoolName, rados_pool: Option<&str>) -> Result<()> {
        let rados_pool = rados_pool.map(str::to_owned);
        let request = PlacePool { pool: pool.to_string(), rados_pool };
        let input =
            serde_json::to_vec(&request).map_err(|cause| Error::invalid(cause.to_string()))?;
        self.ask("place", Bytes::from(input), PLACE_TIMEOUT).await.map(drop)
    }

    /// Asks the first gateway that can be reached. All requests may be repeated.
    async fn ask(&self, method: &str, input: Bytes, patience: Duration) -> Result<Bytes> {
        let mut failure = Error::unavailable("the cluster has no gateway");
        for gateway in &self.gateways {
            let session = self.sessions.session(gateway)?;
            match session.ask(CEPH_POOLS_SERVICE, method, input.clone(), patience).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => failure = error,
                answer => return answer,
            }
        }
        Err(failure)
    }
}
