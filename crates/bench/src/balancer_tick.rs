//! `balancer-tick`: how long a tick takes on a rank with 100,000 units, in a cluster of a hundred
//! ranks. In a tick the rank measures its units, takes the heartbeats of all ranks, and decides.
//! The bench measures each shipped policy.

use std::sync::Arc;
use std::time::Duration;

use nacre_balance::{Heartbeat, Inputs, Policy, Progress, RankLoad, Rounds, Unit, UnitRates};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{Error, Result};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;

const RANKS: usize = 100;
const UNITS: usize = 100_000;
const POLICIES: [(&str, &str); 3] = [
    ("greedy_spill", include_str!("../../../programs/balancer/greedy_spill.lua")),
    ("cephfs_hybrid", include_str!("../../../programs/balancer/cephfs_hybrid.lua")),
    ("sequencers", include_str!("../../../programs/balancer/sequencers.lua")),
];
/// The least number of measured ticks, even if the user asks for fewer.
const MIN_TICKS: usize = 20;
/// What is aimed at, in milliseconds.
const AIM_MILLIS: f64 = 10.0;

pub(crate) fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    for (name, source) in POLICIES {
        let figure = format!("{RANKS} heartbeats, {UNITS} own units, {name}, median");
        if !setup.wants(&figure) {
            continue;
        }
        let policy = Policy::compile(name, 1, source)?;
        let mut millis = vec![];
        for turn in 0..MIN_TICKS.max(setup.rounds) as u64 {
            millis.push(tick(&policy, turn + 1, &clock)?.as_secs_f64() * 1e3);
        }
        let of = ("balancer-tick", figure, "ms");
        let aim = ("the aim", AIM_MILLIS);
        report(Figure::new(of, Better::Lower, median(millis), aim).aiming_at(1.0));
    }
    Ok(())
}

/// How long one tick takes the busiest of the ranks.
fn tick(policy: &Policy, number: u64, clock: &Arc<dyn Clock>) -> Result<Duration> {
    let mut random = Random::seeded(number);
    let rates: Vec<_> = (0..UNITS).map(|_| rates(&mut random)).collect();
    let unit = |(at, rates): (usize, &UnitRates)| Unit {
        name: format!("log-{at}"),
        kind: "sequencer".to_owned(),
        tenant: "standard".to_owned(),
        rates: *rates,
    };
    let units = rates.iter().enumerate().map(unit).collect();
    let names: Vec<_> = (0..RANKS).map(|rank| format!("meta.{rank:02}")).collect();
    let began = clock.monotonic();
    let unit_loads = policy.measure(&rates, clock)?;
    let own: f64 = unit_loads.iter().sum();
    let mut rounds = Rounds::new(names[0].as_str());
    for (rank, node) in names.iter().enumerate() {
        let load = if rank == 0 { own } else { own * random.below(900) as f64 / 1000.0 };
        rounds.hear(heartbeat(node, number, &names, load));
    }
    let Progress::Complete(round) = rounds.progress(number) else {
        return Err(Error::corrupt(
            "the tick is not complete although all ranks have sent heartbeats",
        ));
    };
    let inputs = Inputs {
        tick: number,
        whoami: round.whoami,
        ranks: round.ranks,
        units,
        unit_loads,
        state: Default::default(),
    };
    policy.decide(&inputs, clock)?;
    Ok(clock.monotonic() - began)
}

fn rates(random: &mut Random) -> UnitRates {
    let mut rate = || random.below(1000) as f64;
    UnitRates { ird: rate(), iwr: rate(), readdir: rate(), fetch: rate(), store: rate() }
}

fn heartbeat(node: &str, tick: u64, ranks: &[String], load: f64) -> Heartbeat {
    let load =
        RankLoad { node: node.to_owned(), auth: load, all: load, cpu: 50.0, ..RankLoad::default() };
    Heartbeat { tick, policy: "measured".to_owned(), version: 1, ranks: ranks.to_vec(), load }
}
