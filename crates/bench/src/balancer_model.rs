//! `balancer-model`: compares the balancing simulator with a real cluster. Each metadata node may
//! use only a share of a processor, so that the nodes of this machine do not slow each other down.
//!
//! The bench measures the costs ([`BalancerProfile`]) once, on a cluster of two nodes. Then it runs
//! other loads on a real cluster, and simulates them with these costs. For each load it compares
//! the real rate with the simulated one.

use std::time::Duration;

use nacre::{ClientRouting, Log};
use nacre_balance::{
    Arrivals, CostModel, Operations, Policy, RankGroup, Scenario, UnitGroup, simulate,
};
use nacre_node::BalancerProfile;
use nacre_object::Result;

use crate::append::new_log;
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::limited_cluster::LimitedCluster;
use crate::load;
use crate::scratch;

/// The share of a processor that each node may use. It is small enough for the nodes to limit the
/// rate, even if three of them share two processors with their clients and other processes.
pub(crate) const PROCESSORS: f64 = 0.03;
/// How many requests are in flight for each log: enough to keep the log's node busy. The
/// measurement of the costs has the same number in flight.
const IN_FLIGHT: usize = 64;
/// Handles of a log. They compete for the log, so each request goes to the sequencer.
const HANDLES: usize = 2;
/// Load in a simulation, in comparison with what a node can serve: enough to keep it busy.
pub(crate) const SIMULATED_LOAD: f64 = 1.5;
/// The time from one decision of the policy to the next.
const TICK: Duration = Duration::from_secs(1);
/// Ticks that a run lasts at the least, so that what precedes the first decision matters little.
const MIN_TICKS: u32 = 10;
/// The share of a run's time that is not counted, at the run's beginning. It is the same on the
/// real cluster and in the simulator.
const WARM_UP_SHARE: f64 = load::WARM_UP_SHARE;
/// How far a simulated rate may be from the real one, in percent.
const AIM_PERCENT: f64 = 25.0;

const SPREADING: &str = include_str!("../../../programs/balancer/sequencers.lua");
/// Moves nothing.
const NEVER: &str = include_str!("../../../programs/balancer/never.lua");
/// Moves the second of two units of the first rank, in proxy mode.
const PROXY: &str = "mode = 'proxy'\nmetaload = 'IRD + IWR'\n\
    function when() return whoami == 1 and #units == 2 end\n\
    function where() targets[2] = units[2].load end\n\
    howmuch = { function() return { 2 } end }\n";

/// A run that is measured and simulated.
struct Run {
    name: &'static str,
    nodes: usize,
    /// The node of each log at the beginning.
    logs: &'static [usize],
    policy: &'static str,
}

const RUNS: [Run; 7] = [
    Run { name: "1 node, 1 log", nodes: 1, logs: &[0], policy: NEVER },
    Run { name: "1 node, 6 logs", nodes: 1, logs: &[0; 6], policy: NEVER },
    Run { name: "2 nodes, 3 logs on one of them", nodes: 2, logs: &[0; 3], policy: NEVER },
    Run { name: "3 nodes, a log each", nodes: 3, logs: &[0, 1, 2], policy: NEVER },
    Run { name: "3 nodes, two logs each", nodes: 3, logs: &[0, 1, 2, 0, 1, 2], policy: NEVER },
    Run {
        name: "3 nodes, 3 logs spread by the policy",
        nodes: 3,
        logs: &[0; 3],
        policy: SPREADING,
    },
    Run { name: "2 nodes, one of 2 logs in proxy mode", nodes: 2, logs: &[0, 0], policy: PROXY },
];

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let costs = measured_costs(setup).await?;
    let span = setup.span.max(TICK * MIN_TICKS);
    let mut worst: f64 = 0.0;
    for run in RUNS.iter().filter(|run| setup.wants(run.name)) {
        let real = run.measured(setup, span).await?;
        let simulated = run.simulated(&costs, span)?;
        let deviation = 100.0 * (simulated / real - 1.0).abs();
        let of = ("balancer-model", format!("simulated: {}", run.name), "positions/s");
        report(Figure::new(of, Better::Higher, simulated, ("the real cluster", real)));
        worst = worst.max(deviation);
    }
    let of = ("balancer-model", "furthest from the real cluster", "%");
    let aim = ("the aim", AIM_PERCENT);
    report(Figure::new(of, Better::Lower, worst, aim).aiming_at(1.0));
    Ok(())
}

/// The costs of the simulator, measured on two nodes.
pub(crate) async fn measured_costs(setup: &Setup) -> Result<CostModel> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = LimitedCluster::start(setup, folder.path(), 2, PROCESSORS).await?;
    let client = cluster.scratch.client().await?;
    let profile = BalancerProfile::measure(&client, setup.span).await;
    cluster.stop().await;
    Ok(profile?.costs)
}

impl Run {
    /// Positions a second on a real cluster.
    async fn measured(&self, setup: &Setup, span: Duration) -> Result<f64> {
        let folder = scratch::folder(&setup.folder)?;
        let cluster = LimitedCluster::start(setup, folder.path(), self.nodes, PROCESSORS).await?;
        let rate = self.measured_on(&cluster, span).await;
        cluster.stop().await;
        rate
    }

    async fn measured_on(&self, cluster: &LimitedCluster, span: Duration) -> Result<f64> {
        let mut logs = vec![];
        for (number, node) in self.logs.iter().enumerate() {
            let client = cluster.scratch.client().await?;
            let log = new_log(&client, &log_name(number)).await?;
            log.take_positions(1).await?;
            log.move_sequencer(cluster.nodes[*node].clone()).await?;
            log.take_positions(1).await?;
            // A handle that is alone with its log would issue positions itself.
            let other = client.log(log.name().as_str()).await?;
            other.take_positions(1).await?;
            logs.push([log, other]);
        }
        match self.policy {
            NEVER => {}
            PROXY => {
                let to = cluster.nodes[1].clone();
                logs[1][0].hand_over_sequencer(to, ClientRouting::Forward).await?;
            }
            source => cluster.put_in_charge(source, TICK).await?,
        }
        rate(&logs, span).await
    }

    /// Positions a second in a simulation with these costs.
    fn simulated(&self, costs: &CostModel, span: Duration) -> Result<f64> {
        let unit = |(number, node): (usize, &usize)| UnitGroup {
            name: log_name(number),
            first_rank: Some(*node),
            ..UnitGroup::default()
        };
        let per_unit_per_second = SIMULATED_LOAD * PROCESSORS / costs.service_seconds;
        let arrivals = Arrivals { per_unit_per_second, ..Arrivals::default() };
        let ranks = RankGroup { count: self.nodes, capacity: PROCESSORS, ..RankGroup::default() };
        let scenario = Scenario {
            ranks: vec![ranks],
            units: self.logs.iter().enumerate().map(unit).collect(),
            operations: Operations::Arrivals(arrivals),
            duration_seconds: (1.0 + WARM_UP_SHARE) * span.as_secs_f64(),
            tick_seconds: TICK.as_secs_f64(),
            costs: costs.clone(),
            ..Scenario::default()
        };
        let simulation = simulate(&scenario, &Policy::compile("simulated", 1, self.policy)?)?;
        let warm_up = WARM_UP_SHARE * span.as_secs_f64();
        let counts = simulation.ticks.iter().filter(|tick| tick.at_seconds >= warm_up);
        let rates: Vec<_> = counts.map(|tick| tick.throughput).collect();
        Ok(rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

fn log_name(number: usize) -> String {
    format!("log-{number}")
}

async fn rate(logs: &[[Log; HANDLES]], span: Duration) -> Result<f64> {
    let outcome = load::run(logs.len() * IN_FLIGHT, span, |worker| {
        let log = logs[worker % logs.len()][worker / logs.len() % HANDLES].clone();
        move |_| {
            let log = log.clone();
            async move { log.take_positions(1).await.map(drop) }
        }
    });
    Ok(outcome.await?.rate)
}
