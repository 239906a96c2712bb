//! Figures of the Malacology paper: sequencers that begin on one rank, and balancers that spread
//! them.

use nacre_balance::{
    CostModel, Job, JobStep, Operations, RankGroup, Scenario, Simulation, UnitGroup, simulate,
};
use nacre_clock::Random;
use nacre_object::{Error, Result};

use super::creates::push_throughput;
use super::figure::Computed;
use super::report::Finding;
use super::trial::{SEEDS, deviation_of, median_of};
use crate::figure_chart::FigureChart;
use crate::policies::{BACK_OFFS, CPU, HYBRID, NO_BALANCING, PolicyPlan, SEQUENCERS, WORKLOAD};

/// Clients of each sequencer, as in the Malacology paper.
const CLIENTS: usize = 4;
/// How long a client takes for a request if no rank slows it down. Four such clients send more
/// requests than one rank can serve.
pub(super) const QUESTION_SECONDS: f64 = 3e-3;
/// How long a client takes for a request if there are twelve sequencers. One rank cannot serve the
/// clients of twelve sequencers, but three ranks can.
const RARE_QUESTION_SECONDS: f64 = 18e-3;
/// A client is slower or faster than the mean by at most this share.
const VARIATION: f64 = 0.03;
/// How long a run takes, and after which time the Malacology paper calls a run stable.
const SECONDS: f64 = 200.0;
const STABLE_FROM_SECONDS: f64 = 100.0;
/// More requests than a client can send in a run.
const ENDLESS: f64 = 1e9;

/// Sequencers on the first of some ranks.
pub(super) struct SequencerTrial {
    pub policy: PolicyPlan,
    pub ranks: usize,
    pub sequencers: usize,
    /// How long a client takes for a request if no rank slows it down.
    pub question_seconds: f64,
}

/// The cost of each action. A rank serves about as many requests a second as a server in the
/// Malacology paper.
pub(super) fn costs() -> CostModel {
    CostModel {
        service_seconds: 1e-3,
        forward_seconds: 0.5e-3,
        migration_seconds: 0.1,
        session_flush_seconds: 1e-3,
        ..CostModel::default()
    }
}

impl SequencerTrial {
    /// The simulation of each seed.
    ///
    /// # Errors
    /// `Invalid` if the policy fails.
    pub fn run(&self) -> Result<Vec<Simulation>> {
        SEEDS.into_iter().map(|seed| self.simulate(seed)).collect()
    }

    fn simulate(&self, seed: u64) -> Result<Simulation> {
        let mut random = Random::seeded(seed);
        let names: Vec<_> = (0..self.sequencers).map(|at| format!("sequencer.{at:02}")).collect();
        let unit = |name: &String| UnitGroup {
            name: name.clone(),
            first_rank: Some(0),
            ..UnitGroup::default()
        };
        let clients = names.iter().flat_map(|name| [name; CLIENTS]);
        let jobs = clients.map(|name| asking(name, self.question_seconds, &mut random)).collect();
        let scenario = Scenario {
            ranks: vec![RankGroup { count: self.ranks, ..RankGroup::default() }],
            units: names.iter().map(unit).collect(),
            operations: Operations::Jobs(jobs),
            clients_per_unit: CLIENTS as f64,
            duration_seconds: SECONDS,
            seed,
            costs: costs(),
            ..Scenario::default()
        };
        let simulation = simulate(&scenario, &self.policy.compile()?)?;
        match simulation.failures.first() {
            None => Ok(simulation),
            Some(failure) => {
                Err(Error::invalid(format!("{}: {}", self.policy.name, failure.message)))
            }
        }
    }
}

/// A client that asks a sequencer for its tail again and again.
fn asking(sequencer: &str, question_seconds: f64, random: &mut Random) -> Job {
    let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
    let think_seconds = question_seconds * (1.0 + VARIATION * (2.0 * share - 1.0));
    let units = vec![sequencer.to_owned()];
    let step = JobStep { units, reads: ENDLESS, writes: 0.0, think_seconds };
    Job { begins_at_seconds: 0.0, steps: vec![step] }
}

/// The three modes of CephFS's balancer beside a policy made for sequencers.
pub(super) fn balancers() -> Result<Computed> {
    let trial = |policy| SequencerTrial {
        policy,
        ranks: 3,
        sequencers: 3,
        question_seconds: QUESTION_SECONDS,
    };
    let mut over_time = FigureChart::new(
        "throughput",
        "Three sequencers of four clients each, on three ranks",
        ("seconds", "questions a second", "balancer"),
    );
    let mut stable = FigureChart::new(
        "stable",
        "Three sequencers on three ranks, from 100 s on",
        ("balancer", "questions a second", "clients"),
    );
    let (mut findings, mut rates) = (vec![], vec![]);
    for policy in [NO_BALANCING, CPU, WORKLOAD, HYBRID, SEQUENCERS] {
        let runs = trial(policy).run()?;
        push_throughput(&mut over_time, &runs[0], policy.name);
        for run in &runs {
            stable.push(policy.short, stable_rate(run), "4 clients each");
        }
        rates.push(median_of(&runs, stable_rate));
        let of = |what: &str| format!("{}: {what}", policy.name);
        if policy.name == NO_BALANCING.name {
            continue;
        }
        let paper = (policy.name == SEQUENCERS.name).then_some(1.8);
        let gain = median_of(&runs, stable_rate) / rates[0];
        findings.push(Finding::new(of("stable rate beside no balancing"), "times", paper, gain));
        let deviation = 100.0 * deviation_of(&runs, stable_rate) / median_of(&runs, stable_rate);
        findings.push(Finding::new(of("deviation of the stable rate"), "%", None, deviation));
        let moves = median_of(&runs, |run| run.totals.moves as f64);
        findings.push(Finding::new(of("migrations"), "sequencers", None, moves));
        let first = median_of(&runs, |run| run.ticks[1].throughput / run.ticks[0].throughput);
        findings.push(Finding::new(of("rate from 10 to 20 s beside before"), "times", None, first));
    }
    let (least, most) = spread(&rates[1..4]);
    let modes = "the best of CephFS's three modes beside the worst";
    findings.push(Finding::new(modes, "times", 1.0, most / least));
    Ok(Computed { costs: Some(costs()), findings, charts: vec![over_time, stable] })
}

/// The same policy with longer and longer pauses after a migration.
pub(super) fn back_off() -> Result<Computed> {
    let mut over_time = FigureChart::new(
        "throughput",
        "Twelve sequencers of four clients each, on three ranks",
        ("seconds", "questions a second", "back-off"),
    );
    let mut findings = vec![];
    for policy in BACK_OFFS {
        let question_seconds = RARE_QUESTION_SECONDS;
        let runs = SequencerTrial { policy, ranks: 3, sequencers: 12, question_seconds }.run()?;
        push_throughput(&mut over_time, &runs[0], policy.name);
        let whole = median_of(&runs, |run| run.totals.served / run.totals.seconds);
        let of = |what: &str| format!("{}: {what}", policy.name);
        findings.push(Finding::new(of("rate of the whole run"), "questions/s", None, whole));
        let stable = median_of(&runs, stable_rate);
        findings.push(Finding::new(of("stable rate"), "questions/s", None, stable));
    }
    Ok(Computed { costs: Some(costs()), findings, charts: vec![over_time] })
}

/// Requests a second after the time at which the Malacology paper calls a run stable.
pub(super) fn stable_rate(simulation: &Simulation) -> f64 {
    let is_stable = |tick: &&nacre_balance::SimulatedTick| tick.at_seconds >= STABLE_FROM_SECONDS;
    let rates: Vec<_> =
        simulation.ticks.iter().filter(is_stable).map(|tick| tick.throughput).collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}

fn spread(rates: &[f64]) -> (f64, f64) {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (least, rates.iter().copied().fold(0.0, f64::max))
}
