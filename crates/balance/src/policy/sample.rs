//! Made-up ticks on which a policy is tried before it is stored or made live.

use crate::{Inputs, RankLoad, State, Unit, UnitRates};

/// The ranks of a made-up tick.
pub(super) const RANKS: usize = 3;
/// How many made-up ticks a policy is tried on for each shape of the load, one after the other. At
/// each tick it starts with the state that it stored at the tick before.
pub(super) const TICKS: u64 = 4;

/// How the load of a made-up tick is spread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// The rank that decides has all load.
    Peak,
    /// All ranks have the same load.
    Even,
    /// There is none.
    Idle,
}

impl Shape {
    pub const ALL: [Shape; 3] = [Self::Peak, Self::Even, Self::Idle];

    /// The tick as the rank `whoami` sees it.
    pub fn tick(self, whoami: usize) -> Inputs {
        let is_busy = |rank: usize| match self {
            Self::Peak => rank == whoami,
            Self::Even => true,
            Self::Idle => false,
        };
        let units: Vec<_> = (0..4).map(|at| unit(at, is_busy(whoami))).collect();
        Inputs {
            tick: 0,
            whoami,
            ranks: (0..RANKS).map(|rank| rank_load(rank, is_busy(rank))).collect(),
            unit_loads: units.iter().map(|unit| unit.rates.iwr).collect(),
            units,
            state: State::default(),
        }
    }
}

fn rank_load(rank: usize, is_busy: bool) -> RankLoad {
    let node = format!("node{rank}");
    let labels = [("sequencers".to_owned(), "yes".to_owned())].into_iter().collect();
    match is_busy {
        true => RankLoad {
            node,
            auth: 100.0,
            all: 120.0,
            cpu: 95.0,
            mem: 60.0,
            queue: 5.0,
            requests: 1000.0,
            labels,
            capacity: 1.0,
        },
        false => RankLoad { node, labels, ..RankLoad::default() },
    }
}

fn unit(at: usize, is_busy: bool) -> Unit {
    let rate = if is_busy { 10.0 * (at + 1) as f64 } else { 0.0 };
    Unit {
        name: format!("unit{at}"),
        kind: ["sequencer", "directory"][at % 2].to_owned(),
        tenant: "default".to_owned(),
        rates: UnitRates { ird: rate, iwr: rate, readdir: rate, fetch: rate, store: rate },
    }
}
