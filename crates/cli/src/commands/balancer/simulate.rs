//! `nacre balancer simulate`: what a policy does to a made-up cluster.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use nacre_balance::{
    RankGroup, Scenario, SimulatedTick, Simulation, SimulationTotals, THRASH_TICKS, UnitGroup,
    simulate as simulated,
};
use nacre_object::{Error, Result};

use super::policy_file::PolicyFile;
use super::replay;
use crate::out::{Out, table};

/// Lines of the table. More are not read.
const MAX_LINES: usize = 30;
/// With more ranks than this, the table shows the least and the highest load.
const MAX_LOAD_COLUMNS: usize = 8;
/// Failures that are shown one by one.
const SHOWN_FAILURES: usize = 3;

/// What to simulate
#[derive(Debug, clap::Args)]
pub struct SimulateArguments {
    /// The policy's source; `-` is standard input
    policy_file: PathBuf,
    /// A scenario in JSON, see docs/balancing-simulator.md (default: three busy sequencers on the
    /// first of three nodes)
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Simulate recorded operations: a file that `nacre balancer history --json` or `nacre balancer
    /// cephfs record` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "ranks", "units", "tick"])]
    history: Option<PathBuf>,
    /// Costs in JSON that `nacre balancer profile` wrote, instead of the scenario's costs
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The number of equal ranks (simulated nodes), instead of the scenario's ranks
    #[arg(long, value_name = "N")]
    ranks: Option<usize>,
    /// The number of sequencers on the first rank, instead of the scenario's units
    #[arg(long, value_name = "N")]
    units: Option<usize>,
    /// Seconds of the made-up cluster's time to simulate (default: the scenario's, or 300)
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds from one decision to the next (default: the scenario's, or 10)
    #[arg(long, value_name = "SECONDS")]
    tick: Option<f64>,
    /// The seed of the simulation's random numbers (default: the scenario's, or 1)
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SimulateArguments {
    fn scenario(&self) -> Result<Scenario> {
        let model = self.model.as_deref().map(|path| read(path, "model")).transpose()?;
        let mut scenario = match (&self.scenario, &self.history) {
            (_, Some(path)) => {
                Scenario::of_records(&replay::read(path)?, model.unwrap_or_default())?
            }
            (Some(path), None) => {
                let mut scenario = self.changed(read(path, "scenario")?);
                scenario.costs = model.unwrap_or(scenario.costs);
                scenario
            }
            // The sequencers have as many operations as the ranks can serve, however many there are.
            (None, None) => Scenario::crowded_on_the_first(
                self.ranks.unwrap_or(3),
                self.units.unwrap_or(3),
                model.unwrap_or_default(),
            ),
        };
        scenario.duration_seconds = self.seconds.unwrap_or(scenario.duration_seconds);
        scenario.tick_seconds = self.tick.unwrap_or(scenario.tick_seconds);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(scenario)
    }

    fn changed(&self, mut scenario: Scenario) -> Scenario {
        if let Some(count) = self.ranks {
            scenario.ranks = vec![RankGroup { count, ..RankGroup::default() }];
        }
        if let Some(count) = self.units {
            let group = UnitGroup { count, first_rank: Some(0), ..UnitGroup::default() };
            scenario.units = vec![group];
        }
        scenario
    }
}

fn read<T: for<'a> serde::Deserialize<'a>>(path: &Path, what: &str) -> Result<T> {
    let name = path.display();
    let file = File::open(path)
        .map_err(|cause| Error::not_found(format!("cannot read {name}: {cause}")))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|cause| {
        Error::invalid(format!("{name} is no {what}: {cause}"))
            .hint("docs/balancing-simulator.md says what one consists of")
    })
}

/// Simulates, and shows what came of it.
pub(super) fn simulate(arguments: &SimulateArguments, out: Out) -> Result<()> {
    let policy = PolicyFile::read(&arguments.policy_file)?.compile()?;
    let simulation = simulated(&arguments.scenario()?, &policy)?;
    out.show(&simulation, || text(&simulation))
}

fn text(simulation: &Simulation) -> String {
    let ranks = &simulation.ranks;
    let mut header = vec!["tick", "at", "served/s", "imbalance", "moves", "forwards", "waiting"];
    match ranks.len() <= MAX_LOAD_COLUMNS {
        true => header.extend(ranks.iter().map(String::as_str)),
        false => header.extend(["least", "highest"]),
    }
    let rows: Vec<_> = chosen(&simulation.ticks).map(row).collect();
    format!("{}\n{}", table(&header, &rows), summary(simulation))
}

/// Ticks evenly chosen, the first and the last among them.
fn chosen(ticks: &[SimulatedTick]) -> impl Iterator<Item = &SimulatedTick> {
    let last = ticks.len().saturating_sub(1);
    let lines = ticks.len().min(MAX_LINES);
    (0..lines).map(move |line| &ticks[line * last / (lines - 1).max(1)])
}

fn row(tick: &SimulatedTick) -> Vec<String> {
    let mut cells = vec![
        tick.tick.to_string(),
        format!("{:.0} s", tick.at_seconds),
        format!("{:.0}", tick.throughput),
        format!("{:.2}", tick.imbalance),
        tick.moves.to_string(),
        format!("{:.0}", tick.forwards),
        format!("{:.0}", tick.queue.iter().sum::<f64>()),
    ];
    let load = |load: f64| format!("{load:.0}");
    match tick.load.len() <= MAX_LOAD_COLUMNS {
        true => cells.extend(tick.load.iter().copied().map(load)),
        false => {
            let least = tick.load.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = tick.load.iter().copied().fold(0.0, f64::max);
            cells.extend([load(least), load(highest)]);
        }
    }
    cells
}

fn summary(simulation: &Simulation) -> String {
    let SimulationTotals {
        seconds,
        arrived,
        served,
        queued,
        moves,
        late_moves,
        forwards,
        thrash,
        failures,
        ..
    } = &simulation.totals;
    let SimulationTotals { mean_imbalance, final_imbalance, .. } = &simulation.totals;
    let mut lines = vec![
        format!("in {seconds:.0} s: {arrived:.0} operations, {served:.0} served, {queued:.0} wait"),
        format!(
            "{moves} moves, {late_moves} too late for their tick, {thrash} back within \
             {THRASH_TICKS} ticks; {forwards:.0} forwards"
        ),
        format!("imbalance {mean_imbalance:.2} on average, {final_imbalance:.2} at the end"),
    ];
    if *failures > 0 {
        lines.push(format!("the policy failed {failures} times, and moved nothing then:"));
        let shown = simulation.failures.iter().take(SHOWN_FAILURES);
        lines.extend(shown.map(|failure| {
            let rank = &simulation.ranks[failure.rank];
            format!("  tick {}, {rank}: {}", failure.tick, failure.message)
        }));
    }
    lines.push(
        "simulated only: docs/balancing-simulator.md says which results are near real runs"
            .to_owned(),
    );
    lines.iter().map(|line| crate::out::printable(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_simulation_is_shown_from_its_first_tick_to_its_last() {
        let ticks: Vec<_> =
            (0..1000).map(|tick| SimulatedTick { tick, ..SimulatedTick::default() }).collect();
        let shown: Vec<_> = chosen(&ticks).map(|tick| tick.tick).collect();
        assert_eq!((shown.len(), shown[0], shown[29]), (MAX_LINES, 0, 999));
        for count in [0, 1, 2, 30] {
            assert_eq!(chosen(&ticks[..count]).count(), count);
        }
    }
}
