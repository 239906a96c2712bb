//! `Cluster`: the ranks and units of a simulation, and how they change in a step.
//!
//! Most units of a rank change by one common rule. [`Drift`] records the common change, and
//! `settle` applies it to the units. A unit that moved since the last `settle` has missed a part of
//! the common change. Such a unit is marked *apart*, and each step updates it on its own.

use super::CostModel;
use super::directories::Directories;
use super::drift::{Drift, Flow};
use super::scenario::RankGroup;
use crate::{Mode, UnitRates};

/// The ranks and units of a simulation.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    pub ranks: Vec<SimulatedRank>,
    /// By name.
    pub units: Vec<SimulatedUnit>,
    directories: Directories,
    costs: &'a CostModel,
    mode: Mode,
    clients: ClientsOfUnit,
    /// Units that are brought up to date at each step.
    apart: Vec<usize>,
    /// Arrivals a second of all units.
    rate: f64,
    pub arrived: f64,
    pub served: f64,
    pub forwards: f64,
    /// Sessions that moves have flushed.
    pub session_flushes: f64,
}

/// The clients that ask for a unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientsOfUnit {
    pub count: f64,
    /// Whether each client sends one more request to the old rank after a move.
    pub ask_once_more: bool,
}

/// A rank.
#[derive(Debug)]
pub(super) struct SimulatedRank {
    capacity: f64,
    busy_cpu_percent: f64,
    /// Arrivals a second of its units.
    rate: f64,
    /// Operations that wait.
    pub queue: f64,
    /// Seconds of other work, which comes before operations.
    debt_seconds: f64,
    /// Operations a second that it forwards.
    passed_on_rate: f64,
    /// How its units changed since they were brought up to date.
    drift: Drift,
    /// The share of its waiting operations that it served in this step.
    share: f64,
    /// Operations that were served since the tick began.
    pub served_in_tick: f64,
    served_in_sample: f64,
    busy_in_sample: f64,
    /// In the last sample, as heartbeats tell it.
    pub requests_per_second: f64,
    /// In the last sample, as heartbeats tell it.
    pub cpu_percent: f64,
}

/// A unit.
#[derive(Debug)]
pub(super) struct SimulatedUnit {
    /// The rank that serves it; while it moves, the rank that it leaves.
    pub rank: usize,
    /// The rank that clients ask first in proxy mode.
    home: usize,
    reads: Flow,
    writes: Flow,
    progress: UnitProgress,
}

/// How a unit is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitProgress {
    WithRank,
    Apart,
    /// It moves: nobody serves it.
    Held,
}

impl SimulatedRank {
    pub fn new(group: &RankGroup) -> Self {
        Self {
            capacity: group.capacity,
            busy_cpu_percent: group.busy_cpu_percent,
            rate: 0.0,
            queue: 0.0,
            debt_seconds: 0.0,
            passed_on_rate: 0.0,
            drift: Drift::NONE,
            share: 0.0,
            served_in_tick: 0.0,
            served_in_sample: 0.0,
            busy_in_sample: 0.0,
            requests_per_second: 0.0,
            cpu_percent: 0.0,
        }
    }

    /// Serves as many operations as fit into a step. Returns their number.
    fn step(&mut self, seconds: f64, costs: &CostModel) -> f64 {
        let work = self.capacity * seconds;
        self.debt_seconds += self.passed_on_rate * seconds * costs.forward_seconds;
        let other = self.debt_seconds.min(work);
        self.debt_seconds -= other;
        let waiting = self.queue + self.rate * seconds;
        let served = waiting.min((work - other) / costs.service_seconds);
        self.share = if waiting > 0.0 { served / waiting } else { 0.0 };
        self.queue = waiting - served;
        self.drift.step(seconds, self.share);
        self.served_in_tick += served;
        self.served_in_sample += served;
        self.busy_in_sample += (other + served * costs.service_seconds) / self.capacity;
        served
    }

    fn sample(&mut self, seconds: f64, kept: f64) {
        self.drift.sample(kept);
        self.requests_per_second = self.served_in_sample / seconds;
        self.cpu_percent = self.busy_cpu_percent * self.busy_in_sample / seconds;
        (self.served_in_sample, self.busy_in_sample) = (0.0, 0.0);
    }
}

impl SimulatedUnit {
    pub fn new(rank: usize) -> Self {
        let (reads, writes) = Default::default();
        Self { rank, home: rank, reads, writes, progress: UnitProgress::WithRank }
    }

    pub fn is_held(&self) -> bool {
        self.progress == UnitProgress::Held
    }

    /// The counters, as of the last sample.
    pub fn rates(&self) -> UnitRates {
        UnitRates { ird: self.reads.counter, iwr: self.writes.counter, ..UnitRates::default() }
    }

    fn rate(&self) -> f64 {
        self.reads.rate + self.writes.rate
    }

    /// Operations that wait.
    pub fn queue(&self) -> f64 {
        self.reads.queue + self.writes.queue
    }

    fn settle(&mut self, drift: &Drift) {
        self.reads.settle(drift);
        self.writes.settle(drift);
    }
}

impl<'a> Cluster<'a> {
    pub fn new(
        ranks: Vec<SimulatedRank>,
        units: Vec<SimulatedUnit>,
        directories: Directories,
        costs: &'a CostModel,
        mode: Mode,
        clients: ClientsOfUnit,
    ) -> Self {
        Self {
            ranks,
            units,
            directories,
            costs,
            mode,
            clients,
            apart: vec![],
            rate: 0.0,
            arrived: 0.0,
            served: 0.0,
            forwards: 0.0,
            session_flushes: 0.0,
        }
    }

    /// Time advances.
    pub fn step(&mut self, seconds: f64) {
        self.arrived += self.rate * seconds;
        for rank in &mut self.ranks {
            self.forwards += rank.passed_on_rate * seconds;
            self.served += rank.step(seconds, self.costs);
        }
        for at in &self.apart {
            let unit = &mut self.units[*at];
            let share = if unit.is_held() { 0.0 } else { self.ranks[unit.rank].share };
            let mut drift = Drift::NONE;
            drift.step(seconds, share);
            unit.settle(&drift);
        }
    }

    /// Samples the units' counters, `seconds` after the last sample. `kept` is the share of a
    /// counter's value that is left after these seconds of decay.
    pub fn sample(&mut self, seconds: f64, kept: f64) {
        self.ranks.iter_mut().for_each(|rank| rank.sample(seconds, kept));
        let mut drift = Drift::NONE;
        drift.sample(kept);
        self.apart.iter().for_each(|at| self.units[*at].settle(&drift));
    }

    /// Brings all units up to date, and recomputes the ranks' sums, so that rounding errors do not
    /// accumulate.
    pub fn settle(&mut self) {
        for unit in &mut self.units {
            match unit.progress {
                UnitProgress::WithRank => unit.settle(&self.ranks[unit.rank].drift),
                UnitProgress::Apart => unit.progress = UnitProgress::WithRank,
                UnitProgress::Held => {}
            }
        }
        let units = &self.units;
        self.apart.retain(|at| units[*at].is_held());
        for rank in &mut self.ranks {
            rank.drift = Drift::NONE;
            (rank.rate, rank.queue, rank.passed_on_rate) = (0.0, 0.0, 0.0);
        }
        self.rate = 0.0;
        for unit in &self.units {
            self.rate += unit.rate();
            if !unit.is_held() {
                self.ranks[unit.rank].rate += unit.rate();
                self.ranks[unit.rank].queue += unit.queue();
            }
            if self.mode == Mode::Proxy && unit.rank != unit.home {
                self.ranks[unit.home].passed_on_rate += unit.rate();
            }
        }
    }

    /// Sets the arrival rates of the units.
    pub fn set_rates(&mut self, rates: &[f64], reads_share: f64) {
        self.settle();
        for (unit, rate) in self.units.iter_mut().zip(rates) {
            unit.reads.rate = rate * reads_share;
            unit.writes.rate = rate * (1.0 - reads_share);
        }
        self.settle();
    }

    /// Some operations arrive at a unit.
    pub fn add(&mut self, at: usize, reads: f64, writes: f64) {
        self.set_apart(at);
        let unit = &mut self.units[at];
        unit.reads.queue += reads;
        unit.writes.queue += writes;
        let (rank, home, count) = (unit.rank, unit.home, reads + writes);
        self.arrived += count;
        if !unit.is_held() {
            self.ranks[rank].queue += count;
        }
        if self.mode == Mode::Proxy && rank != home {
            self.forwards += count;
            self.ranks[home].debt_seconds += count * self.costs.forward_seconds;
        }
    }

    /// Begins the move of a unit: its rank stops serving it.
    pub fn hold(&mut self, at: usize) {
        self.set_apart(at);
        let unit = &mut self.units[at];
        unit.progress = UnitProgress::Held;
        let rank = &mut self.ranks[unit.rank];
        // The sums are rounded, and never negative.
        rank.rate = (rank.rate - unit.rate()).max(0.0);
        rank.queue = (rank.queue - unit.queue()).max(0.0);
        rank.debt_seconds += self.clients.count * self.costs.session_flush_seconds;
        self.session_flushes += self.clients.count;
    }

    /// Ends the move of a unit: rank `to` serves the unit from now on. Waiting operations move with
    /// the unit. The unit's counters on the new rank start at 0.
    pub fn release(&mut self, at: usize, to: usize) {
        let unit = &mut self.units[at];
        let from = std::mem::replace(&mut unit.rank, to);
        unit.progress = UnitProgress::Apart;
        for flow in [&mut unit.reads, &mut unit.writes] {
            (flow.counter, flow.recent) = (0.0, 0.0);
        }
        let (rate, queue, home) = (unit.rate(), unit.queue(), unit.home);
        self.directories.moved(at, |unit| self.units[unit].rank);
        self.ranks[to].rate += rate;
        self.ranks[to].queue += queue;
        match self.mode {
            Mode::Client => {
                if self.clients.ask_once_more {
                    self.forwards += self.clients.count;
                    self.ranks[from].debt_seconds +=
                        self.clients.count * self.costs.forward_seconds;
                }
            }
            Mode::Proxy => {
                let passed_on = &mut self.ranks[home].passed_on_rate;
                if from == home {
                    *passed_on += rate;
                }
                if to == home {
                    *passed_on = (*passed_on - rate).max(0.0);
                }
            }
        }
    }

    /// The rank that a client finds when it asks for a unit.
    pub fn asked_rank(&self, at: usize) -> usize {
        match self.mode {
            Mode::Client => self.units[at].rank,
            Mode::Proxy => self.units[at].home,
        }
    }

    /// The rank on which a unit began.
    pub fn first_rank(&self, at: usize) -> usize {
        self.units[at].home
    }

    /// A rank passes one operation on.
    pub fn pass_on(&mut self, rank: usize) {
        self.forwards += 1.0;
        self.ranks[rank].debt_seconds += self.costs.forward_seconds;
    }

    /// How many seconds the ranks that serve a unit's directory need to agree on an operation. This
    /// time is added to the operation's own.
    pub fn agreement_seconds(&self, at: usize) -> f64 {
        self.directories.others(at, self.units[at].rank) as f64 * self.costs.scatter_gather_seconds
    }

    /// The share of a unit's waiting operations that its rank served in this step.
    pub fn served_share(&self, at: usize) -> f64 {
        let unit = &self.units[at];
        if unit.is_held() { 0.0 } else { self.ranks[unit.rank].share }
    }

    /// How long a unit serves no operation while it moves.
    pub fn migration_seconds(&self) -> f64 {
        self.costs.migration_seconds
    }

    /// Adds the time that a tick with moves takes on a rank that sends or receives units.
    pub fn coordinate(&mut self, rank: usize) {
        self.ranks[rank].debt_seconds += self.costs.coordination_seconds;
    }

    /// All operations that wait, including the operations on units that move.
    pub fn queued(&self) -> f64 {
        self.units.iter().map(SimulatedUnit::queue).sum()
    }

    fn set_apart(&mut self, at: usize) {
        let unit = &mut self.units[at];
        if unit.progress == UnitProgress::WithRank {
            unit.settle(&self.ranks[unit.rank].drift);
            unit.progress = UnitProgress::Apart;
            self.apart.push(at);
        }
    }
}
