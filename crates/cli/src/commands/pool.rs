//! `nacre pool …`.

use clap::Subcommand;
use nacre::{Cluster, ClusterFile};
use nacre_node::CephPools;
use nacre_object::{Error, PoolName, Result};
use serde_json::json;

use crate::listing::{Limit, Listing, line};
use crate::out::Out;

/// Work with pools: sets of objects
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// List the pools
    #[command(alias = "list")]
    Ls(Limit),
    /// Create an empty pool
    Create {
        pool: PoolName,
        /// On Ceph: keep the pool in this RADOS pool, which must exist, instead of the one that
        /// pools share. Only such a pool can be moved to chosen OSDs
        #[arg(long, value_name = "NAME")]
        rados_pool: Option<String>,
    },
    /// Remove an empty pool
    #[command(alias = "remove")]
    Rm { pool: PoolName },
}

/// Runs one of them.
pub async fn run(command: PoolCommand, file: &ClusterFile, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    match command {
        PoolCommand::Ls(limit) => Listing::lines(out, limit).all(
            cluster.pool_records().await?,
            |(pool, record)| match &record.rados_pool {
                None => json!({ "pool": pool.as_str() }),
                Some(rados_pool) => json!({ "pool": pool.as_str(), "rados_pool": rados_pool }),
            },
            |(pool, record)| match &record.rados_pool {
                None => line(pool.as_str()),
                Some(rados_pool) => line(format!("{pool} in the RADOS pool {rados_pool}")),
            },
        ),
        PoolCommand::Create { pool, .. } if pool.is_own() => {
            Err(Error::invalid("pools whose names begin with nacre. are nacre's own")
                .on(&pool)
                .hint("choose another name"))
        }
        PoolCommand::Create { pool, rados_pool: None } => cluster.create_pool(&pool).await,
        PoolCommand::Create { pool, rados_pool: Some(rados_pool) } => {
            let pools = CephPools::of(file)?.ok_or_else(|| {
                Error::unsupported("only a cluster on Ceph has RADOS pools")
                    .hint("leave out --rados-pool")
            })?;
            pools.create(&cluster, &pool, &rados_pool).await
        }
        PoolCommand::Rm { pool } => remove(&pool, file, &cluster).await,
    }
}

/// Removes a pool, and forgets the RADOS pool that it had for itself. The RADOS pool stays.
async fn remove(pool: &PoolName, file: &ClusterFile, cluster: &Cluster) -> Result<()> {
    let record = cluster.pool_records().await?.remove(pool);
    cluster.remove_pool(pool).await?;
    let has_rados_pool = record.is_some_and(|record| record.rados_pool.is_some());
    match CephPools::of(file)? {
        Some(pools) if has_rados_pool => pools.place(pool, None).await,
        _ => Ok(()),
    }
}
