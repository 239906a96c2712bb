//! Observes direct traffic: requests that Ceph clients send to the OSDs without passing a gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::{Error, NodeName, Result, TargetName};
use nacre_rados::RadosEngine;
use nacre_slo::{IoCounts, NodeSlo, Reading};

use super::SLO_SERVICE;
use super::service::SENT;

/// Between two readings of all counters.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long to wait for a gateway's counts. Direct traffic is computed from two successive
/// readings. So after a late answer the amount stays unknown until two more readings are done.
const GATEWAY_PATIENCE: Duration = Duration::from_secs(1);

/// A gateway that reads the counters of OSDs and of all gateways.
pub(super) struct DirectObserver {
    pub slo: Arc<NodeSlo>,
    pub engine: RadosEngine,
    pub cluster: Cluster,
    pub clock: Arc<dyn Clock>,
}

impl DirectObserver {
    /// Observes until the task is aborted.
    pub async fn run(self) {
        let mut earlier = BTreeMap::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Without a profile the work of an operation is unknown, and no promise depends on it.
            let targets: Vec<_> = self.slo.state().profiles.keys().cloned().collect();
            // A reading that fails leaves direct traffic unknown; the next one tries again.
            let readings = match targets.is_empty() {
                true => BTreeMap::new(),
                false => self.read(&targets).await.unwrap_or_default(),
            };
            for target in &targets {
                let now = readings.get(target);
                self.slo.note_direct(target, earlier.get(target), now);
            }
            earlier = readings;
        }
    }

    async fn read(&self, targets: &[TargetName]) -> Result<BTreeMap<TargetName, Reading>> {
        let sent = self.sent().await?;
        let read = targets.iter().map(async |target| {
            let osd = target.as_str().strip_prefix("osd.")?.parse().ok()?;
            let all = self.engine.osd_counters(osd).await.ok()?;
            let of_target = |(gateway, sent): (&NodeName, &BTreeMap<TargetName, IoCounts>)| {
                (gateway.to_string(), sent.get(target).copied().unwrap_or_default())
            };
            let all = IoCounts {
                reads: all.reads,
                writes: all.writes,
                read_bytes: all.read_bytes,
                written_bytes: all.written_bytes,
            };
            let by_gateway = sent.iter().map(of_target).collect();
            Some((target.clone(), Reading { at: self.clock.monotonic(), all, by_gateway }))
        });
        Ok(join_all(read).await.into_iter().flatten().collect())
    }

    /// What each gateway that answers has sent to each OSD.
    async fn sent(&self) -> Result<BTreeMap<NodeName, BTreeMap<TargetName, IoCounts>>> {
        let nodes = self.cluster.nodes().list().await?;
        let transport = &self.cluster.log_env().sequencers;
        // A node that is no gateway has no such service, and gives no counts.
        let asked = nodes.into_iter().filter(|node| node.up).map(async |node| {
            let asked =
                transport.ask(&node.name, SLO_SERVICE, SENT, Bytes::new(), GATEWAY_PATIENCE);
            let counts = decode(&asked.await.ok()?).ok()?;
            Some((node.name, counts))
        });
        Ok(join_all(asked).await.into_iter().flatten().collect())
    }
}

fn decode(answer: &[u8]) -> Result<BTreeMap<TargetName, IoCounts>> {
    let counts: BTreeMap<String, IoCounts> = serde_json::from_slice(answer).map_err(|cause| {
        Error::corrupt(format!("the counts of a gateway are malformed: {cause}"))
            .hint("run this release of nacre on all gateways")
    })?;
    counts.into_iter().map(|(target, counts)| Ok((TargetName::new(target)?, counts))).collect()
}
