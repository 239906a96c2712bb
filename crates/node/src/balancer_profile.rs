//! Measures the processor time and duration of sequencer operations on a running cluster. The
//! balancing simulator takes its parameters from the result, a `BalancerProfile`.
//!
//! `nacre balancer profile` and `nacre-bench balancer-model` call this module. The module creates a
//! log, puts load on the log's sequencer, and moves the sequencer between two nodes. It reads how
//! much processor time the two nodes used, and removes the log.
//!
//! Two handles of the log send requests alternately. A single handle would get the sequencer's
//! capability. It would then issue positions itself, and the node would receive no requests
//! (docs/capabilities.md).
//!
//! A node reports the processor time of its whole process, so the cluster should do nothing else
//! during the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, Log, LogOptions};
use nacre_balance::CostModel;
use nacre_clock::Random;
use nacre_host::{ClientRouting, put_header};
use nacre_load::median;
use nacre_log::SEQUENCER_SERVICE;
use nacre_object::{Error, ErrorKind, NodeName, Result};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::node_service::{NODE_SERVICE, NodeReport};

/// Requests in flight under load: enough to keep a node busy.
const IN_FLIGHT: usize = 64;
/// How many moves are measured. The time of a move is their median.
const MOVES: usize = 21;
/// How many requests are sent to the former node after the sequencer has moved. A single redirect
/// takes too little time to be measured.
const REDIRECTS: usize = 1000;
/// How long to wait for a node's status. A node that takes longer is not measured.
const STATUS_PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for a redirect, for which the node reads one record.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(2);

/// What operations of sequencers cost, and how it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BalancerProfile {
    /// The parameters of the simulator.
    pub costs: CostModel,
    /// The nodes between which the sequencer moved.
    pub nodes: [String; 2],
    /// How many requests the node answered during the measurement of the service time.
    pub operations: u64,
    /// How many requests the node forwarded during the measurement of the forwarding time.
    pub forwards: u64,
}

impl BalancerProfile {
    /// Measures a cluster. It puts load on the cluster twice, each time for `span`.
    ///
    /// # Errors
    /// `Invalid` if fewer than two nodes host sequencers. `Unsupported` if a node does not report
    /// its processor time. The errors of requests that fail under load.
    pub async fn measure(cluster: &Cluster, span: Duration) -> Result<Self> {
        let mut hosts = cluster.log_env().nodes.nodes().await?;
        hosts.sort();
        let [first, second, ..] = &hosts[..] else {
            return Err(Error::invalid("fewer than two nodes host sequencers: nothing can move")
                .hint("start the cluster with two: nacre up --metadata 2"));
        };
        let name = format!("balancer-profile-{:08x}", Random::from_system().next_u64() as u32);
        let log = cluster.create_log(&name, LogOptions::default()).await?;
        let measured = async {
            let other = cluster.log(&name).await?;
            Bench { cluster, logs: [&log, &other], span }.measure(first, second).await
        };
        let measured = measured.await;
        // The measurement is valid even if the log could not be removed.
        let removed = cluster.remove_log(&name).await;
        let profile = measured?;
        removed.map(|()| profile)
    }
}

/// What is measured.
struct Bench<'a> {
    cluster: &'a Cluster,
    /// The same log twice, so that neither handle is alone with it.
    logs: [&'a Log; 2],
    span: Duration,
}

impl Bench<'_> {
    async fn measure(&self, first: &NodeName, second: &NodeName) -> Result<BalancerProfile> {
        self.take_positions().await?;
        self.hand_over(first, ClientRouting::Redirect).await?;
        let (operations, spent) = self.loaded(first).await?;
        let service_seconds = spent / operations as f64;
        let mut times = vec![];
        for turn in 0..MOVES {
            let to = if turn % 2 == 0 { second } else { first };
            let began = Instant::now();
            self.hand_over(to, ClientRouting::Redirect).await?;
            times.push(began.elapsed().as_secs_f64());
        }
        // It is on the second node now.
        let session_flush_seconds = self.redirected(first).await?;
        self.hand_over(first, ClientRouting::Redirect).await?;
        self.take_positions().await?;
        self.hand_over(second, ClientRouting::Forward).await?;
        let (forwards, spent) = self.loaded(first).await?;
        let costs = CostModel {
            service_seconds,
            forward_seconds: spent / forwards as f64,
            migration_seconds: median(times),
            session_flush_seconds,
            // The measurement does not cover the other parameters.
            ..CostModel::default()
        };
        let nodes = [first.to_string(), second.to_string()];
        Ok(BalancerProfile { costs, nodes, operations, forwards })
    }

    /// Both handles learn where the sequencer is.
    async fn take_positions(&self) -> Result<()> {
        for log in self.logs {
            log.take_positions(1).await?;
        }
        Ok(())
    }

    async fn hand_over(&self, to: &NodeName, routing: ClientRouting) -> Result<()> {
        self.logs[0].hand_over_sequencer(to.clone(), routing).await
    }

    /// Puts load on the sequencer. Returns how many requests the node answered, and how many
    /// seconds of processor time it used for them.
    async fn loaded(&self, node: &NodeName) -> Result<(u64, f64)> {
        let answered = Arc::new(AtomicU64::new(0));
        let before = self.processor_seconds(node).await?;
        let job = |worker: usize| {
            let log = self.logs[worker % self.logs.len()].clone();
            let answered = Arc::clone(&answered);
            move |_| {
                let (log, answered) = (log.clone(), Arc::clone(&answered));
                async move {
                    log.take_positions(1).await?;
                    answered.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
            }
        };
        nacre_load::run(IN_FLIGHT, self.span, job).await?;
        let spent = self.processor_seconds(node).await? - before;
        Ok((answered.load(Ordering::Relaxed).max(1), spent))
    }

    /// Seconds of processor time that the former node uses to redirect one request after the
    /// sequencer has moved away.
    async fn redirected(&self, former: &NodeName) -> Result<f64> {
        let mut input = Default::default();
        // 1 is the first epoch of a log. It is older than any sequencer, so the node redirects the
        // request.
        put_header(&mut input, self.logs[0].name().as_str(), 1);
        input.extend_from_slice(&1_u32.to_le_bytes());
        let input = input.freeze();
        let before = self.processor_seconds(former).await?;
        for _ in 0..REDIRECTS {
            let transport = &self.cluster.log_env().sequencers;
            let asked =
                transport.ask(former, SEQUENCER_SERVICE, "next", input.clone(), REFUSAL_PATIENCE);
            match asked.await {
                Err(refused) if refused.kind() == ErrorKind::Stale => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    return Err(Error::conflict(
                        "the balancer moved the sequencer during the measurement",
                    )
                    .hint("switch the balancer off meanwhile: nacre balancer off"));
                }
            }
        }
        Ok((self.processor_seconds(former).await? - before) / REDIRECTS as f64)
    }

    async fn processor_seconds(&self, node: &NodeName) -> Result<f64> {
        let transport = &self.cluster.log_env().sequencers;
        let asked = transport.ask(node, NODE_SERVICE, "status", Bytes::new(), STATUS_PATIENCE);
        let report: NodeReport = serde_json::from_slice(&asked.await?).map_err(|cause| {
            Error::corrupt(format!("the status of {node} is malformed: {cause}"))
                .hint("run this release of nacre on all nodes")
        })?;
        report.processor_seconds.ok_or_else(|| {
            Error::unsupported(format!("{node} does not report its processor time"))
                .hint("run this release of nacre on all nodes")
        })
    }
}
