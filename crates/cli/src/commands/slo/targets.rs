//! The targets of a cluster, and objects on each target. On Ceph the targets are OSDs, and the
//! gateways report them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, RoleName, Sessions};
use nacre_node::{SLO_SERVICE, WatchRequest};
use nacre_object::{Error, ObjectId, ObjectName, PoolName, Result, TargetName, TenantName};
use nacre_slo::TargetReport;

/// A node answers this in a moment.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Names that are tried to find objects of each target.
const MAX_TRIED_NAMES: usize = 4096;
/// How many object names are tried at least. If none of them maps to an OSD, the OSD stores no
/// placement group of the pool.
const ENOUGH_NAMES: usize = 256;

/// How the targets of a cluster are reached.
pub(crate) struct Targets {
    sessions: Sessions,
    /// The storage nodes, by name.
    nodes: Vec<String>,
    /// Whether the nodes are gateways to a Ceph cluster.
    are_gateways: bool,
    cluster: Cluster,
}

impl Targets {
    /// The targets of a running cluster.
    ///
    /// # Errors
    /// `Invalid` if the cluster file is invalid.
    pub fn new(file: &ClusterFile, cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            sessions: Sessions::new(file)?,
            nodes: file.with_role(RoleName::Storage).map(|node| node.name.clone()).collect(),
            are_gateways: file.engine().is_some(),
            cluster: cluster.clone(),
        })
    }

    /// The measurements of each storage node, without nodes that are down.
    ///
    /// # Errors
    /// `Unavailable` if no node answers.
    pub async fn reports(&self) -> Result<Vec<(String, Vec<TargetReport>)>> {
        let mut reports = vec![];
        let mut failure = Error::unavailable("the cluster has no storage node");
        for node in &self.nodes {
            match self.ask(node, "report", Bytes::new()).await {
                Ok(answer) => {
                    let report = serde_json::from_slice(&answer).map_err(|cause| {
                        Error::corrupt(format!("the report of {node} cannot be read: {cause}"))
                    })?;
                    reports.push((node.clone(), report));
                }
                Err(error) => failure = error,
            }
        }
        if reports.is_empty() { Err(failure) } else { Ok(reports) }
    }

    /// Makes all storage nodes record the requests of a tenant.
    ///
    /// # Errors
    /// `Unavailable` if a node does not answer, because the requests to that node would be missing.
    pub async fn watch(&self, tenant: &TenantName, time: Duration) -> Result<()> {
        let request = WatchRequest { tenant: tenant.to_string(), seconds: time.as_secs_f64() };
        let input =
            serde_json::to_vec(&request).map_err(|cause| Error::invalid(cause.to_string()))?;
        for node in &self.nodes {
            self.ask(node, "watch", Bytes::from(input.clone())).await?;
        }
        Ok(())
    }

    /// The target that a request on the object loads first.
    ///
    /// # Errors
    /// `Unavailable` if no gateway answers.
    pub async fn locate(&self, object: &ObjectId) -> Result<TargetName> {
        if !self.are_gateways {
            return Ok(self.cluster.locate(object));
        }
        let mut failure = Error::unavailable("the cluster has no gateway");
        for node in &self.nodes {
            match self.ask(node, "locate", Bytes::from(object.to_string())).await {
                Ok(answer) => {
                    let name = String::from_utf8(answer.to_vec());
                    return TargetName::new(name.unwrap_or_default());
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Finds `of_each` objects of each target. Their names begin with `prefix`.
    ///
    /// # Errors
    /// As [`Targets::locate`].
    pub async fn objects(
        &self,
        pool: &PoolName,
        prefix: &str,
        of_each: usize,
    ) -> Result<BTreeMap<TargetName, Vec<ObjectId>>> {
        let mut objects: BTreeMap<TargetName, Vec<ObjectId>> = BTreeMap::new();
        for number in 0..MAX_TRIED_NAMES {
            let name = ObjectName::new(format!("{prefix}.{number}"))?;
            let object = ObjectId { pool: pool.clone(), name };
            let own = objects.entry(self.locate(&object).await?).or_default();
            if own.len() < of_each {
                own.push(object);
            }
            let are_all = objects.values().all(|own| own.len() == of_each);
            if are_all && number + 1 >= ENOUGH_NAMES {
                break;
            }
        }
        Ok(objects)
    }

    async fn ask(&self, node: &str, method: &str, input: Bytes) -> Result<Bytes> {
        self.sessions.session(node)?.ask(SLO_SERVICE, method, input, NODE_TIMEOUT).await
    }
}
