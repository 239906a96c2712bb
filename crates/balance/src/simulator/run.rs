//! `simulate`: goes from tick to tick, and from step to step.

use nacre_object::Result;

use super::balancer::Balancer;
use super::clients::Clients;
use super::cluster::{ClientsOfUnit, Cluster, SimulatedRank, SimulatedUnit};
use super::directories::Directories;
use super::migrations::{Migrations, TickTimes};
use super::source::{ROUNDING, Source};
use super::{
    MAX_KEPT_FAILURES, Operations, PolicyFailure, Scenario, SimulatedTick, Simulation,
    SimulationTotals,
};
use crate::Policy;
use crate::limits::DEFAULT_HALF_LIFE;

/// The time from one sample of the units' counters to the next, as on a node.
const SAMPLE_SECONDS: f64 = 1.0;

/// Simulates a scenario under a policy.
///
/// A policy that fails moves nothing; the simulation reports the failure and continues.
///
/// # Errors
/// `Invalid` for a scenario that contradicts itself; `Exhausted` for one that is too large.
pub fn simulate(scenario: &Scenario, policy: &Policy) -> Result<Simulation> {
    scenario.check()?;
    let rank_plans = scenario.rank_plans()?;
    let unit_plans = scenario.unit_plans(rank_plans.len())?;
    let ranks = rank_plans.iter().map(|plan| SimulatedRank::new(plan.group)).collect();
    let units = unit_plans.iter().map(|plan| SimulatedUnit::new(plan.first_rank)).collect();
    let (costs, directories) = (&scenario.costs, Directories::new(&unit_plans));
    let clients = ClientsOfUnit {
        count: scenario.clients_per_unit,
        // Clients that do jobs turn to units by themselves.
        ask_once_more: !matches!(scenario.operations, Operations::Jobs(_)),
    };
    let mut run = Run {
        cluster: Cluster::new(ranks, units, directories, costs, policy.mode(), clients),
        balancer: Balancer::new(policy, &rank_plans, &unit_plans),
        migrations: Migrations::default(),
        source: Source::new(scenario, &unit_plans)?,
        step_seconds: scenario.tick_seconds / scenario.steps() as f64,
        since_sample: 0.0,
        failures: vec![],
        failure_count: 0,
    };
    let mut ticks = vec![];
    for tick in 0..scenario.ticks() {
        ticks.push(run.tick(scenario, tick));
        if run.source.clients().is_some_and(|clients| clients.finished_at().is_some()) {
            break;
        }
    }
    Ok(Simulation {
        policy: policy.name().to_owned(),
        mode: policy.mode(),
        ranks: rank_plans.iter().map(|plan| plan.name.clone()).collect(),
        units: unit_plans.len(),
        seed: scenario.seed,
        costs: costs.clone(),
        totals: run.totals(scenario, &ticks),
        ticks,
        failures: run.failures,
    })
}

/// A simulation that is under way.
struct Run<'a> {
    cluster: Cluster<'a>,
    balancer: Balancer<'a>,
    migrations: Migrations,
    source: Source,
    step_seconds: f64,
    since_sample: f64,
    failures: Vec<PolicyFailure>,
    failure_count: u64,
}

impl Run<'_> {
    fn tick(&mut self, scenario: &Scenario, tick: u64) -> SimulatedTick {
        let seconds = scenario.tick_seconds;
        let at_seconds = tick as f64 * seconds;
        let (moves, late_moves) = (self.migrations.begun, self.migrations.late);
        let (forwards, served) = (self.cluster.forwards, self.cluster.served);
        if tick > 0 {
            self.decide(TickTimes { tick, begins_at: at_seconds, seconds });
        }
        for step in 0..scenario.steps() {
            self.step(at_seconds + step as f64 * self.step_seconds);
        }
        self.sample();
        self.cluster.settle();
        let mut units = vec![0; self.cluster.ranks.len()];
        self.cluster.units.iter().for_each(|unit| units[unit.rank] += 1);
        let ranks = &mut self.cluster.ranks;
        let load = |rank: &mut super::cluster::SimulatedRank| {
            std::mem::take(&mut rank.served_in_tick) / seconds
        };
        let load: Vec<_> = ranks.iter_mut().map(load).collect();
        SimulatedTick {
            tick,
            at_seconds,
            imbalance: imbalance(&load),
            load,
            queue: ranks.iter().map(|rank| rank.queue).collect(),
            units,
            moves: self.migrations.begun - moves,
            late_moves: self.migrations.late - late_moves,
            forwards: self.cluster.forwards - forwards,
            throughput: (self.cluster.served - served) / seconds,
        }
    }

    fn decide(&mut self, times: TickTimes) {
        let verdict = self.balancer.tick(times.tick, &self.cluster);
        self.failure_count += verdict.failures.len() as u64;
        self.failures.extend(verdict.failures);
        self.failures.truncate(MAX_KEPT_FAILURES);
        self.migrations.plan(times, &verdict.moves, &mut self.cluster);
    }

    fn step(&mut self, now: f64) {
        let seconds = self.step_seconds;
        self.source.step(now, seconds, &mut self.cluster);
        self.migrations.step(now, seconds, &mut self.cluster);
        self.cluster.step(seconds);
        self.source.learn(now + seconds, &self.cluster);
        self.since_sample += seconds;
        if self.since_sample >= SAMPLE_SECONDS - ROUNDING {
            self.sample();
        }
    }

    fn sample(&mut self) {
        let seconds = std::mem::take(&mut self.since_sample);
        if seconds > 0.0 {
            let half_lives = seconds / DEFAULT_HALF_LIFE.as_secs_f64();
            self.cluster.sample(seconds, (-half_lives).exp2());
        }
    }

    fn totals(&self, scenario: &Scenario, ticks: &[SimulatedTick]) -> SimulationTotals {
        let imbalances = ticks.iter().map(|tick| tick.imbalance);
        SimulationTotals {
            seconds: ticks.len() as f64 * scenario.tick_seconds,
            arrived: self.cluster.arrived,
            served: self.cluster.served,
            queued: self.cluster.queued(),
            moves: self.migrations.begun,
            late_moves: self.migrations.late,
            forwards: self.cluster.forwards,
            thrash: self.migrations.thrash.count(),
            mean_imbalance: imbalances.sum::<f64>() / ticks.len() as f64,
            final_imbalance: ticks.last().map_or(1.0, |tick| tick.imbalance),
            failures: self.failure_count,
            finished_seconds: self.source.clients().and_then(Clients::finished_at),
            sessions: self.source.clients().map_or(0, Clients::sessions),
            session_flushes: self.cluster.session_flushes,
        }
    }
}

/// The highest load in comparison with the mean; 1 if there is none.
fn imbalance(loads: &[f64]) -> f64 {
    let (sum, highest) = loads
        .iter()
        .fold((0.0, 0.0), |(sum, highest): (f64, f64), load| (sum + load, highest.max(*load)));
    if sum > 0.0 { highest * loads.len() as f64 / sum } else { 1.0 }
}
