//! `SloTargets`: the targets to which tail-latency promises apply, in a running cluster. It
//! measures what requests cost on each target, and finds objects that each target keeps. The
//! commands `nacre slo`, the demo and benches use it.
//!
//! On Ceph the targets are OSDs, and a gateway says which OSD serves an object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, RoleName, Sessions};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{
    Error, ErrorKind, ObjectId, ObjectName, PoolName, Result, Store, TargetName, TenantName,
};
use nacre_qos::scheduler::Commits;
use nacre_slo::{ProfilePlan, StoredProfile, TargetReport, profile_targets, remove_objects};

use crate::{SLO_SERVICE, WatchRequest};

/// A node answers this in a moment.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Names that are tried to find objects of each target.
const MAX_TRIED_NAMES: usize = 4096;
/// How many object names are tried at least. An OSD to which none of these names maps is assumed to
/// store nothing of the pool.
const ENOUGH_NAMES: usize = 256;

/// The pool of the objects that are measured with. It is removed afterwards.
const PROFILE_POOL: &str = "nacre-slo-profile";

/// Reaches the targets of a cluster.
pub struct SloTargets {
    sessions: Sessions,
    /// The storage nodes, by name.
    nodes: Vec<String>,
    /// What keeps the data, if the nodes are gateways to a Ceph cluster.
    engine: Option<String>,
    cluster: Cluster,
}

impl SloTargets {
    /// The targets of a running cluster.
    ///
    /// # Errors
    /// `Invalid` if the cluster file is invalid.
    pub fn new(file: &ClusterFile, cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            sessions: Sessions::new(file)?,
            nodes: file.with_role(RoleName::Storage).map(|node| node.name.clone()).collect(),
            engine: file.engine().map(str::to_owned),
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
        if self.engine.is_none() {
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
    /// As [`SloTargets::locate`].
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

    /// Prepares a measurement of all targets that takes about `time`: creates a pool, and chooses
    /// objects on each target.
    ///
    /// # Errors
    /// As [`SloTargets::locate`].
    pub async fn begin_profile(&self, time: Duration) -> Result<Profiling> {
        let pool = PoolName::new(PROFILE_POOL)?;
        self.cluster.create_pool(&pool).await?;
        let (engine, commits) = match &self.engine {
            None => ("embedded", Commits::InGroups),
            Some(engine) => (engine.as_str(), Commits::Singly),
        };
        let fingerprint = format!("{engine}, nacre {}", env!("CARGO_PKG_VERSION"));
        let plan = ProfilePlan::within(time, fingerprint, commits);
        // Two measurements at the same time use different objects.
        let prefix = format!("{:016x}", Random::from_system().next_u64());
        let objects = self.objects(&pool, &prefix, plan.objects()).await?;
        Ok(Profiling { cluster: self.cluster.clone(), pool, plan, objects })
    }

    async fn ask(&self, node: &str, method: &str, input: Bytes) -> Result<Bytes> {
        self.sessions.session(node)?.ask(SLO_SERVICE, method, input, NODE_TIMEOUT).await
    }
}

/// A measurement of all targets. Whoever began it [finishes](Profiling::finish) it, also after a
/// failure.
pub struct Profiling {
    cluster: Cluster,
    pool: PoolName,
    plan: ProfilePlan,
    objects: BTreeMap<TargetName, Vec<ObjectId>>,
}

impl Profiling {
    /// How many targets are measured.
    pub fn targets(&self) -> usize {
        self.objects.len()
    }

    /// Measures the targets. Calls `progress` before each measurement.
    ///
    /// # Errors
    /// `Unavailable` if a target does not answer; as [`profile_targets`].
    pub async fn measure(
        &self,
        progress: impl Fn(&str),
    ) -> Result<Vec<(TargetName, StoredProfile)>> {
        let store: Arc<dyn Store> = self.cluster.store().clone();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        profile_targets(&store, &self.objects, &self.plan, &clock, progress).await
    }

    /// Removes what was measured with.
    ///
    /// # Errors
    /// `Unavailable` if a target does not answer.
    pub async fn finish(self) -> Result<()> {
        let store: Arc<dyn Store> = self.cluster.store().clone();
        remove_objects(&store, &self.objects).await?;
        match self.cluster.remove_pool(&self.pool).await {
            // Somebody else still measures with it.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            removed => removed.map(drop),
        }
    }
}
