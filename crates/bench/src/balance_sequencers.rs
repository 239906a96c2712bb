//! `balance-sequencers`: the append rate of three logs with four clients each, before and after
//! balancing. At first all sequencers are on one of three nodes; then the policy `sequencers.lua`
//! spreads them. The clients of a log compete for it, so each position costs an exchange with the
//! sequencer (Malacology, section "Load balancing ZLog sequencers with Mantle").
//!
//! Each round measures the sequencers on one node, then spread over the nodes, and then on one node
//! again. So a machine that becomes slower or faster affects both results alike.

use std::collections::BTreeSet;
use std::time::Duration;

use nacre::Log;
use nacre_balance::{
    Arrivals, CostModel, Operations, Policy, RankGroup, Scenario, UnitGroup, simulate,
};
use nacre_object::{Error, Result};
use tokio::time::Instant;

use crate::append::new_log;
use crate::balancer_model::{PROCESSORS, SIMULATED_LOAD, measured_costs};
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::limited_cluster::LimitedCluster;
use crate::load;
use crate::load::median;
use crate::scratch;

const NODES: usize = 3;
const LOGS: usize = 3;
/// Clients of each log.
const CLIENTS: usize = 4;
/// Requests that a client has in flight: enough to keep a node with one log busy.
const IN_FLIGHT: usize = 64;
/// The time from one decision of the policy to the next.
const TICK: Duration = Duration::from_secs(1);
/// How long each side is measured at the least.
const MIN_SPAN: Duration = Duration::from_secs(5);
/// If the sequencers are not spread after this time, the bench fails.
const SPREAD_PATIENCE: Duration = Duration::from_secs(120);
/// How long the simulated cluster runs. The second half counts.
const SIMULATED_SECONDS: f64 = 60.0;
/// The gain in the Malacology paper.
const AIM: f64 = 1.8;

/// The modes in which clients reach a sequencer that has moved. Each has a name, and the line that
/// selects the mode when it is put before the policy.
const MODES: [(&str, &str); 2] = [("client mode", ""), ("proxy mode", "mode = 'proxy'\n")];
const SPREADING: &str = include_str!("../../../programs/balancer/sequencers.lua");
const NEVER: &str = include_str!("../../../programs/balancer/never.lua");

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let costs = measured_costs(setup).await?;
    for (mode, setting) in MODES.into_iter().filter(|(mode, _)| setup.wants(mode)) {
        let policy = format!("{setting}{SPREADING}");
        let mut rates = Rates::default();
        for _ in 0..setup.rounds {
            rates.measure(setup, &policy).await?;
        }
        let (gathered, spread) = (median(rates.gathered), median(rates.spread));
        let name = format!("{LOGS} logs of {CLIENTS} clients, spread over {NODES} nodes, {mode}");
        let figure = Figure::new(
            ("balance-sequencers", name, "positions/s"),
            Better::Higher,
            spread,
            ("all sequencers on one node", gathered),
        );
        report(figure.aiming_at(AIM));
        let simulated = simulated_rate(&costs, &policy)? / simulated_rate(&costs, NEVER)?;
        let of = ("balance-sequencers", format!("simulated gain, {mode}"), "times");
        report(Figure::new(of, Better::Higher, simulated, ("the real gain", spread / gathered)));
    }
    Ok(())
}

/// Positions a second, by round.
#[derive(Default)]
struct Rates {
    gathered: Vec<f64>,
    spread: Vec<f64>,
}

impl Rates {
    /// Measures a round on a cluster of its own.
    async fn measure(&mut self, setup: &Setup, policy: &str) -> Result<()> {
        let folder = scratch::folder(&setup.folder)?;
        let cluster = LimitedCluster::start(setup, folder.path(), NODES, PROCESSORS).await?;
        let outcome = self.measure_on(&cluster, setup.span.max(MIN_SPAN), policy).await;
        cluster.stop().await;
        outcome
    }

    async fn measure_on(
        &mut self,
        cluster: &LimitedCluster,
        span: Duration,
        policy: &str,
    ) -> Result<()> {
        let observed = observed_logs(cluster).await?;
        let clients = clients_of(cluster, &observed).await?;
        gather(cluster, &observed).await?;
        self.gathered.push(rate(&clients, span).await?);
        cluster.put_in_charge(policy, TICK).await?;
        load_until_spread(&observed, &clients).await?;
        self.spread.push(rate(&clients, span).await?);
        cluster.stop_balancing(TICK).await?;
        gather(cluster, &observed).await?;
        self.gathered.push(rate(&clients, span).await?);
        Ok(())
    }
}

/// Handles of the logs by which the benchmark moves sequencers. They ask for no positions.
async fn observed_logs(cluster: &LimitedCluster) -> Result<Vec<Log>> {
    let client = cluster.scratch.client().await?;
    let mut logs = vec![];
    for number in 0..LOGS {
        let log = new_log(&client, &format!("log-{number}")).await?;
        log.take_positions(1).await?;
        logs.push(log);
    }
    Ok(logs)
}

/// The same logs, once for each client.
async fn clients_of(cluster: &LimitedCluster, logs: &[Log]) -> Result<Vec<Log>> {
    let mut clients = vec![];
    for log in logs {
        for _ in 0..CLIENTS {
            let client = cluster.scratch.client().await?;
            clients.push(client.log(log.name().as_str()).await?);
        }
    }
    Ok(clients)
}

/// Moves all sequencers to the first node. A client that asks next goes there.
async fn gather(cluster: &LimitedCluster, logs: &[Log]) -> Result<()> {
    for log in logs {
        log.move_sequencer(cluster.nodes[0].clone()).await?;
    }
    Ok(())
}

/// Keeps the sequencers busy until the policy has given each a node of its own.
async fn load_until_spread(logs: &[Log], clients: &[Log]) -> Result<()> {
    let deadline = Instant::now() + SPREAD_PATIENCE;
    while Instant::now() < deadline {
        rate(clients, TICK).await?;
        let mut nodes = BTreeSet::new();
        for log in logs {
            nodes.insert(log.stat().await?.sequencer.map(|node| node.to_string()));
        }
        if nodes.len() == NODES {
            return Ok(());
        }
    }
    Err(Error::unavailable(format!(
        "the policy has not spread the sequencers within {SPREAD_PATIENCE:?}"
    ))
    .hint("check whether the machine is overloaded: nodes must send their heartbeats in time"))
}

/// Positions a second, by all clients.
async fn rate(clients: &[Log], span: Duration) -> Result<f64> {
    let outcome = load::run(clients.len() * IN_FLIGHT, span, |worker| {
        let log = clients[worker % clients.len()].clone();
        move |_| {
            let log = log.clone();
            async move { log.take_positions(1).await.map(drop) }
        }
    });
    Ok(outcome.await?.rate)
}

/// Positions a second in the second half of a simulation with these costs.
fn simulated_rate(costs: &CostModel, policy: &str) -> Result<f64> {
    let per_unit_per_second = SIMULATED_LOAD * PROCESSORS / costs.service_seconds;
    let arrivals = Arrivals { per_unit_per_second, ..Arrivals::default() };
    let scenario = Scenario {
        ranks: vec![RankGroup { count: NODES, capacity: PROCESSORS, ..RankGroup::default() }],
        units: vec![UnitGroup { count: LOGS, first_rank: Some(0), ..UnitGroup::default() }],
        operations: Operations::Arrivals(arrivals),
        clients_per_unit: CLIENTS as f64,
        duration_seconds: SIMULATED_SECONDS,
        tick_seconds: TICK.as_secs_f64(),
        costs: costs.clone(),
        ..Scenario::default()
    };
    let simulation = simulate(&scenario, &Policy::compile("simulated", 1, policy)?)?;
    let counts = &simulation.ticks[simulation.ticks.len() / 2..];
    Ok(counts.iter().map(|tick| tick.throughput).sum::<f64>() / counts.len() as f64)
}
