//! `nacre pool …`.

use clap::Subcommand;
use nacre::Cluster;
use nacre_object::{PoolName, Result};
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
    Create { pool: PoolName },
    /// Remove an empty pool
    #[command(alias = "remove")]
    Rm { pool: PoolName },
}

/// Runs one of them.
pub async fn run(command: PoolCommand, cluster: &Cluster, out: Out) -> Result<()> {
    match command {
        PoolCommand::Ls(limit) => Listing::lines(out, limit).all(
            cluster.pools().await?,
            |pool| json!({ "pool": pool.as_str() }),
            |pool| line(pool.as_str()),
        ),
        PoolCommand::Create { pool } => cluster.create_pool(&pool).await,
        PoolCommand::Rm { pool } => cluster.remove_pool(&pool).await,
    }
}
