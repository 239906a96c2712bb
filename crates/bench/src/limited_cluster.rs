//! `LimitedCluster`: a cluster whose metadata nodes may each use only a share of a processor, so
//! that nodes do not slow each other down. The benches of the balancer run on it.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use nacre::{ProgramId, ProgramKind, RoleName};
use nacre_balance::BalancerSettings;
use nacre_node::{NODE_SERVICE, NodeReport};
use nacre_object::{Error, NodeName, Result};

use crate::bench::Setup;
use crate::processor_quota::ProcessorQuota;
use crate::scratch::ScratchCluster;

/// How long to wait until a node reports its process id.
const STATUS_PATIENCE: Duration = Duration::from_secs(10);
/// How long nodes may take to make a policy live.
const LIVE_PATIENCE: Duration = Duration::from_secs(30);
/// The name of the policy that is measured.
const POLICY: &str = "measured";

/// A cluster whose metadata nodes may each use a share of a processor.
pub(crate) struct LimitedCluster {
    pub scratch: ScratchCluster,
    /// The nodes that host sequencers.
    pub nodes: Vec<NodeName>,
    quotas: Vec<ProcessorQuota>,
}

impl LimitedCluster {
    /// Starts so many metadata nodes.
    ///
    /// # Errors
    /// As [`ProcessorQuota::of`]; `Unavailable` if a node does not start.
    pub async fn start(
        setup: &Setup,
        folder: &Path,
        nodes: usize,
        processors: f64,
    ) -> Result<Self> {
        let scratch = ScratchCluster::start_with_metadata(folder, nodes, &setup.program).await?;
        let mut limited = Self { scratch, nodes: vec![], quotas: vec![] };
        match limited.limit(processors).await {
            Ok(()) => Ok(limited),
            Err(error) => {
                limited.stop().await;
                Err(error)
            }
        }
    }

    async fn limit(&mut self, processors: f64) -> Result<()> {
        let client = self.scratch.client().await?;
        let file = self.scratch.supervisor.cluster();
        for entry in file.with_role(RoleName::Metadata) {
            let node = entry.node_name()?;
            let transport = &client.log_env().sequencers;
            let asked = transport.ask(&node, NODE_SERVICE, "status", Bytes::new(), STATUS_PATIENCE);
            let report: NodeReport = serde_json::from_slice(&asked.await?).map_err(|cause| {
                Error::corrupt(format!("the status of {node} cannot be read: {cause}"))
            })?;
            self.quotas.push(ProcessorQuota::of(report.pid, processors)?);
            self.nodes.push(node);
        }
        Ok(())
    }

    /// Stores a policy, waits until all nodes have it, and then makes it the balancer's policy.
    ///
    /// # Errors
    /// `Unavailable` if the policy does not become active on a node.
    pub async fn put_in_charge(&self, source: &str, tick: Duration) -> Result<()> {
        let client = self.scratch.client().await?;
        let policy: nacre_object::ProgramName = POLICY.parse()?;
        let program = ProgramId::new(ProgramKind::Balancer, policy.clone());
        let version = client.programs().put(&program, source).await?;
        client.programs().activate(&program, version).await?;
        client.programs().wait(&program, version, LIVE_PATIENCE).await?;
        BalancerSettings { policy: Some(policy), tick }.store(client.maps()).await
    }

    /// Switches the balancer off.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn stop_balancing(&self, tick: Duration) -> Result<()> {
        let client = self.scratch.client().await?;
        BalancerSettings { policy: None, tick }.store(client.maps()).await
    }

    /// Ends every process.
    pub async fn stop(self) {
        drop(self.quotas);
        self.scratch.stop().await;
    }
}
