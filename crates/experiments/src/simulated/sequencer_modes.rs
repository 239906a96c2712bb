//! Figures of the Malacology paper on balancing modes and migration units: two sequencers on two
//! ranks.

use nacre_object::Result;

use super::figure::Computed;
use super::report::Finding;
use super::sequencers::{QUESTION_SECONDS, SequencerTrial, costs, stable_rate};
use super::trial::median_of;
use crate::figure_chart::FigureChart;
use crate::policies::{MODES, NEVER};

/// The trials: client mode and proxy mode. In each mode, one trial moves half of the load at a
/// time, and one trial moves all of it.
pub(super) fn modes() -> Result<Computed> {
    let question_seconds = QUESTION_SECONDS;
    let trial = |policy| SequencerTrial { policy, ranks: 2, sequencers: 2, question_seconds };
    let mut bars = FigureChart::new(
        "stable",
        "Two sequencers of four clients each, on two ranks, from 100 s on",
        ("mode", "questions a second", "rank"),
    );
    let alone = median_of(&trial(NEVER).run()?, stable_rate);
    let (mut findings, mut charts) = (vec![], vec![]);
    for (policy, file, paper) in MODES {
        let runs = trial(policy).run()?;
        let title = format!("Two sequencers on two ranks, {}", policy.name);
        let mut chart = FigureChart::new(file, &title, ("seconds", "questions a second", "rank"));
        for tick in &runs[0].ticks {
            for (rank, load) in tick.load.iter().enumerate() {
                chart.push(tick.at_seconds, *load, &format!("rank {rank}"));
            }
        }
        charts.push(chart);
        for run in &runs {
            bars.push(policy.name, stable_rate(run), "both ranks");
        }
        let of = |what: &str| format!("{}: {what}", policy.name);
        let gain = median_of(&runs, stable_rate) / alone;
        findings.push(Finding::new(of("stable rate beside no balancing"), "times", paper, gain));
        let first = median_of(&runs, |run| run.ticks[run.ticks.len() - 1].load[0]);
        findings.push(Finding::new(of("served by the first rank"), "questions/s", None, first));
        let second = median_of(&runs, |run| run.ticks[run.ticks.len() - 1].load[1]);
        findings.push(Finding::new(of("served by the second rank"), "questions/s", None, second));
    }
    charts.push(bars);
    Ok(Computed { costs: Some(costs()), findings, charts })
}
