//! The order of the measurements: all strategies take turns, again and again.

use std::time::Duration;

use nacre_clock::Random;
use nacre_load::{self as load, Outcome};
use nacre_object::Result;

use crate::experiment::Experiment;
use crate::plan::{Over, Plan, Work};
use crate::report::{Report, Series};
use crate::sample_log::SampleLog;
use crate::site::{Site, SiteHandle};

/// Requests under way.
pub(crate) const WORKERS: usize = 32;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// How long each point in a round.
    pub span: Duration,
    /// How often.
    pub rounds: usize,
}

/// Measures a figure. Calls `progress` with the completed share of the measurement.
///
/// # Errors
/// The errors of the engine; `Corrupt` if the engine returns a wrong entry.
pub async fn measure(
    experiment: Experiment,
    site: &Site,
    effort: Effort,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Report> {
    let plan = experiment.plan();
    let mut outcomes = vec![vec![Vec::new(); plan.points()]; plan.strategies.len()];
    let turns = turns(&plan, effort.rounds);
    for (done, turn) in turns.iter().enumerate() {
        let run = Run { site: site.handle(), plan: &plan, span: effort.span };
        let measured = run.turn(turn, &format!("{done}")).await?;
        let points = outcomes[turn.strategy][turn.first_point..].iter_mut();
        points.zip(measured).for_each(|(point, outcome)| point.push(outcome));
        progress((done + 1) as f64 / turns.len() as f64);
    }
    let series = plan.strategies.iter().zip(&outcomes);
    let series = series.map(|(one, outcomes)| Series::new(one, &plan, effort, outcomes)).collect();
    Ok(Report::new(experiment, site.fingerprint(), effort, series))
}

/// A strategy's turn: it has its own log, and measures some points on it.
struct Turn {
    strategy: usize,
    first_point: usize,
}

/// All turns in order. Values that a figure compares are measured close together in time.
fn turns(plan: &Plan, rounds: usize) -> Vec<Turn> {
    let logs = match plan.over {
        Over::Sizes(_) => plan.points(),
        Over::Time { .. } => 1,
    };
    let mut turns = vec![];
    for first_point in 0..logs {
        for _ in 0..rounds {
            turns.extend((0..plan.strategies.len()).map(|strategy| Turn { strategy, first_point }));
        }
    }
    turns
}

struct Run<'a> {
    site: SiteHandle,
    plan: &'a Plan,
    span: Duration,
}

impl Run<'_> {
    async fn turn(&self, turn: &Turn, label: &str) -> Result<Vec<Outcome>> {
        let strategy = self.plan.strategies[turn.strategy];
        let bytes = self.plan.bytes(turn.first_point);
        let log = SampleLog::create(self.site.clone(), strategy, bytes, label.to_owned()).await?;
        let measured = self.measure(&log).await;
        log.remove().await?;
        measured
    }

    async fn measure(&self, log: &SampleLog) -> Result<Vec<Outcome>> {
        if let Work::RandomReads(entries) = self.plan.work {
            log.fill(entries).await?;
        }
        let spans = match self.plan.over {
            Over::Sizes(_) => 1,
            Over::Time { spans, .. } => spans,
        };
        let mut outcomes = vec![];
        for _ in 0..spans {
            outcomes.push(self.span(log).await?);
        }
        Ok(outcomes)
    }

    async fn span(&self, log: &SampleLog) -> Result<Outcome> {
        let work = self.plan.work;
        load::run(WORKERS, self.span, |worker| {
            let (log, mut random) = (log.clone(), Random::seeded(worker as u64));
            move |_| {
                let (log, draw) = (log.clone(), random.next_u64());
                async move {
                    match work {
                        Work::Appends => log.append().await,
                        Work::RandomReads(_) => log.read(draw).await,
                    }
                }
            }
        })
        .await
    }
}
