//! `nacre pool …`.

use clap::Subcommand;
use nacre::Cluster;
use nacre_object::{PoolName, Result};
use serde_json::json;

use crate::out::Out;

/// Work with pools: sets of objects
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// List the pools
    Ls,
    /// Make a pool
    Create { pool: PoolName },
    /// Remove an empty pool
    Rm { pool: PoolName },
}

/// Runs one of them.
pub async fn run(command: PoolCommand, cluster: &Cluster, out: Out) -> Result<()> {
    match command {
        PoolCommand::Ls => {
            for pool in cluster.pools().await? {
                out.show(&json!({ "pool": pool.as_str() }), || pool.to_string())?;
            }
            Ok(())
        }
        PoolCommand::Create { pool } => cluster.create_pool(&pool).await,
        PoolCommand::Rm { pool } => cluster.remove_pool(&pool).await,
    }
}
