//! `nacre route cache …`: caches of reads on nodes, and their division among tenants.

mod curve;
mod divide;
mod status;

use std::collections::BTreeMap;

use bytes::Bytes;
use clap::{ArgGroup, Subcommand};
use nacre::{Cluster, ClusterFile, RoleName, Sessions};
use nacre_node::{CacheDivision, CacheReport, CacheSettings, ROUTE_SERVICE, RouteMap};
use nacre_object::{Error, PoolName, Result, TenantName};

use super::status::NODE_TIMEOUT;
use super::wait::{Committed, WaitArgument};
use crate::commands::slo::size;
use crate::out::{Out, note};

/// What a cache of a gateway to Ceph does not notice.
const BEHIND_THE_CACHE: &str = "only changes through nacre's gateways are noticed: if a client of the \
     Ceph cluster changes objects of these pools by itself, for example with librados or the command \
     rados, cached reads return the bytes from before";

/// Caches of reads.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Cache the reads of objects in the memory of each node
    On(OnArguments),
    /// Cache nothing any more
    Off {
        #[command(flatten)]
        wait: WaitArgument,
    },
    /// Show for each node and tenant how many reads its cache has answered, and the size of the
    /// cache
    Status,
    /// Show which part of a tenant's reads a cache of each size would miss (its miss-ratio curve)
    Curve {
        /// The tenant (default: all tenants)
        tenant: Option<TenantName>,
    },
    /// Divide the cache among tenants by their miss-ratio curves, so that few reads miss
    ///
    /// Each tenant that has read lately gets a share by its present reads. Tenants that stop get
    /// none when you divide again.
    Divide {
        #[command(flatten)]
        wait: WaitArgument,
    },
}

/// What is cached
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("division").args(["shares", "shared"]))]
pub struct OnArguments {
    /// A pool whose objects are cached (default: data). May be repeated
    #[arg(long = "pool", value_name = "POOL")]
    pools: Vec<PoolName>,
    /// The memory of each node's cache, such as 64MiB
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: u64,
    /// The share of a tenant in the memory, such as gold=16MiB. May be repeated. Tenants without a
    /// share use the rest together
    #[arg(long = "share", value_name = "TENANT=BYTES", value_parser = share)]
    shares: Vec<(TenantName, u64)>,
    /// Let all tenants use one cache together
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    wait: WaitArgument,
}

/// A tenant with its share.
fn share(text: &str) -> Result<(TenantName, u64), String> {
    let (tenant, bytes) = text.split_once('=').ok_or("say TENANT=BYTES, such as gold=16MiB")?;
    let tenant = TenantName::new(tenant).map_err(|error| error.to_string())?;
    match bytes.trim_start_matches('0') {
        "" if !bytes.is_empty() => Ok((tenant, 0)),
        _ => Ok((tenant, size(bytes)?)),
    }
}

/// Runs one of them.
pub(super) async fn run(
    command: CacheCommand,
    file: &ClusterFile,
    cluster: &Cluster,
    out: Out,
) -> Result<()> {
    use CacheCommand as C;
    let map = RouteMap::new(cluster.maps().clone());
    match command {
        C::On(arguments) => {
            let settings = arguments.settings(cluster).await?;
            let epoch = map.set_caches(Some(&settings)).await?;
            if file.engine().is_some() {
                note(BEHIND_THE_CACHE);
            }
            Committed { file, wait: arguments.wait, epoch }.of_cache_settings(out).await
        }
        C::Off { wait } => {
            let epoch = map.set_caches(None).await?;
            Committed { file, wait, epoch }.of_cache_settings(out).await
        }
        C::Status => status::status(&reports(file).await?, out),
        C::Curve { tenant } => curve::curve(&reports(file).await?, tenant.as_ref(), out),
        C::Divide { wait } => {
            let reports = reports(file).await?;
            let state = map.state().await?;
            let shares = divide::shares(state.caches.as_ref(), &reports)?;
            let epoch = map.set_cache_shares(&shares).await?;
            let committed = Committed { file, wait, epoch };
            let is_in_force = committed.until_caches_apply().await?;
            divide::show(epoch, is_in_force, &shares, out)
        }
    }
}

impl OnArguments {
    async fn settings(&self, cluster: &Cluster) -> Result<CacheSettings> {
        let mut pools: Vec<_> = self.pools.iter().map(ToString::to_string).collect();
        if pools.is_empty() {
            pools.push("data".to_owned());
        }
        for pool in &pools {
            cluster.pool(pool).await?;
        }
        let division = match self.shared {
            true => CacheDivision::Shared,
            false => {
                let mut shares = BTreeMap::new();
                for (tenant, bytes) in &self.shares {
                    if shares.insert(tenant.to_string(), *bytes).is_some() {
                        return Err(Error::invalid(format!("{tenant} is given two shares"))
                            .hint("say --share once for each tenant"));
                    }
                }
                CacheDivision::Shares(shares)
            }
        };
        Ok(CacheSettings { pools, bytes: self.size, division })
    }
}

/// What the nodes say of their caches, without those that are down.
///
/// # Errors
/// `Unavailable` if no node answers.
async fn reports(file: &ClusterFile) -> Result<Vec<CacheReport>> {
    let sessions = Sessions::new(file)?;
    let (mut all, mut failure) = (vec![], None);
    for node in file.with_role(RoleName::Storage) {
        let session = sessions.session(&node.name)?;
        match session.ask(ROUTE_SERVICE, "caches", Bytes::new(), NODE_TIMEOUT).await {
            Ok(answer) => all.push(serde_json::from_slice(&answer).map_err(|cause| {
                Error::corrupt(format!("the answer of {} cannot be read: {cause}", node.name))
            })?),
            Err(error) => {
                note(&format!("{} does not report the status of its caches: {error}", node.name));
                failure = Some(error);
            }
        }
    }
    match (all.is_empty(), failure) {
        (true, Some(error)) => Err(error),
        _ => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_a_tenant_and_a_size_which_may_be_0() {
        let parsed = |text| share(text).map(|(tenant, bytes)| (tenant.to_string(), bytes));
        assert_eq!(parsed("gold=16MiB"), Ok(("gold".to_owned(), 16 << 20)));
        assert_eq!(parsed("gold=0"), Ok(("gold".to_owned(), 0)));
        for wrong in ["gold", "gold=", "=4k", "gold=much"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
