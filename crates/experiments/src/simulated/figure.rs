//! The simulated figures by name.

use std::str::FromStr;

use nacre_balance::CostModel;
use nacre_object::{Error, Result};

use super::report::{Finding, SimulatedReport};
use super::trial::SEEDS;
use super::{compilations, creates, latency_promises, sequencer_modes, sequencers, trial};
use crate::figure_chart::FigureChart;
use crate::recorded_build::RecordedBuild;
use crate::workloads::{compilation, separate_directories};

/// A figure of a paper that is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulatedFigure {
    /// Mantle, figure 3: what distribution costs in requests.
    Locality,
    /// Mantle, figure 4: the same job again and again.
    SameJob,
    /// Mantle, figure 5: what one rank serves.
    OneRank,
    /// Mantle, figure 7: creates in one directory over time.
    Creates,
    /// Mantle, figure 8: the speedup of creates in one directory.
    CreateSpeedup,
    /// Mantle, figure 9: the speedup of compilations.
    CompileSpeedup,
    /// Mantle, figure 10: compilations with a flash crowd at their end.
    FlashCrowd,
    /// Malacology: balancers that spread sequencers.
    Balancers,
    /// Malacology: client mode and proxy mode, with half and full migration units.
    Modes,
    /// Malacology: how long a balancer waits after a migration.
    BackOff,
    /// The thesis on SLOs, figures 9 and 10: an overloaded target without and with priorities.
    Priority,
    /// The thesis on SLOs, figures 11 and 12: a burst without and with rate limits.
    RateLimits,
    /// The thesis on SLOs, figures 13 to 18 and table 1: three estimators on two kinds of traces.
    Estimators,
}

/// What a figure computes.
pub(super) struct Computed {
    /// `None` if the balancing simulator had no part in it.
    pub costs: Option<CostModel>,
    pub findings: Vec<Finding>,
    pub charts: Vec<FigureChart>,
}

impl SimulatedFigure {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Locality,
        Self::SameJob,
        Self::OneRank,
        Self::Creates,
        Self::CreateSpeedup,
        Self::CompileSpeedup,
        Self::FlashCrowd,
        Self::Balancers,
        Self::Modes,
        Self::BackOff,
        Self::Priority,
        Self::RateLimits,
        Self::Estimators,
    ];

    /// Its name on the command line, and its folder in `experiments/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Locality => "mantle-3-locality",
            Self::SameJob => "mantle-4-same-job",
            Self::OneRank => "mantle-5-one-rank",
            Self::Creates => "mantle-7-creates",
            Self::CreateSpeedup => "mantle-8-create-speedup",
            Self::CompileSpeedup => "mantle-9-compile-speedup",
            Self::FlashCrowd => "mantle-10-flash-crowd",
            Self::Balancers => "malacology-balancers",
            Self::Modes => "malacology-modes",
            Self::BackOff => "malacology-back-off",
            Self::Priority => "thesis-9-priority",
            Self::RateLimits => "thesis-11-rate-limits",
            Self::Estimators => "thesis-13-estimators",
        }
    }

    /// What it shows.
    pub fn title(self) -> &'static str {
        match self {
            Self::Locality => "Forwarded requests of a compilation",
            Self::SameJob => "Creates in separate directories, the same job again and again",
            Self::OneRank => "What one rank serves",
            Self::Creates => "Four clients create files in one directory, on four ranks",
            Self::CreateSpeedup => "Speedup of four clients that create files in one directory",
            Self::CompileSpeedup => "Speedup of clients that compile",
            Self::FlashCrowd => "Five clients compile, and link at the end",
            Self::Balancers => "Balancers that spread three sequencers over three ranks",
            Self::Modes => "Two sequencers on two ranks, in client mode and in proxy mode",
            Self::BackOff => "Twelve sequencers spread with different back-offs",
            Self::Priority => "Three tenants that overload a target, without and with priorities",
            Self::RateLimits => "A tenant that bursts, without and with rate limits",
            Self::Estimators => "Three estimators, on balanced and unbalanced traces",
        }
    }

    /// Simulates it.
    ///
    /// # Errors
    /// `Invalid` if a policy fails.
    pub fn simulate(self) -> Result<SimulatedReport> {
        let computed = match self {
            Self::Locality => compilations::locality(&compilation),
            Self::SameJob => creates::same_job(&separate_directories),
            Self::OneRank => creates::one_rank(),
            Self::Creates => creates::over_time(),
            Self::CreateSpeedup => creates::speedup(),
            Self::CompileSpeedup => compilations::speedup(&compilation),
            Self::FlashCrowd => compilations::flash_crowd(&compilation),
            Self::Balancers => sequencers::balancers(),
            Self::Modes => sequencer_modes::modes(),
            Self::BackOff => sequencers::back_off(),
            Self::Priority => latency_promises::priority(),
            Self::RateLimits => latency_promises::rate_limits(),
            Self::Estimators => latency_promises::estimators(),
        };
        Ok(self.report(format!("nacre-bench experiment {}", self.name()), computed?))
    }

    /// Simulates the figure with clients that do a recorded build.
    ///
    /// # Errors
    /// `Invalid` if a policy fails, or if a recorded build cannot replace the jobs of this figure's
    /// clients.
    pub fn simulate_build(self, build: &RecordedBuild) -> Result<SimulatedReport> {
        let workload = |clients, seed| build.workload(clients, seed);
        let computed = match self {
            Self::Locality => compilations::locality(&workload),
            Self::SameJob => creates::same_job(&workload),
            Self::CompileSpeedup => compilations::speedup(&workload),
            Self::FlashCrowd => compilations::flash_crowd(&workload),
            _ => {
                let text = format!("{} has no clients that build", self.name());
                return Err(Error::invalid(text).hint("name figure mantle-3, 4, 9 or 10"));
            }
        };
        let mut computed = computed?;
        for chart in &mut computed.charts {
            chart.name = format!("recorded-{}", chart.name);
            chart.title = format!("{}, a recorded build", chart.title);
        }
        let command = format!("nacre-bench experiment {} --build FILE", self.name());
        let report = self.report(command, computed);
        Ok(SimulatedReport { build: Some(build.summary()), ..report })
    }

    fn report(self, command: String, computed: Computed) -> SimulatedReport {
        let Computed { costs, findings, charts } = computed;
        SimulatedReport {
            experiment: self.name().to_owned(),
            title: self.title().to_owned(),
            command,
            is_simulated: true,
            build: None,
            seeds: SEEDS.to_vec(),
            costs,
            findings,
            charts,
        }
    }
}

impl Computed {
    /// Of a figure of the Mantle paper.
    pub fn mantle(findings: Vec<Finding>, charts: Vec<FigureChart>) -> Self {
        Self { costs: Some(trial::costs()), findings, charts }
    }

    /// Of a figure of the thesis on SLOs.
    pub fn thesis(findings: Vec<Finding>, charts: Vec<FigureChart>) -> Self {
        Self { costs: None, findings, charts }
    }
}

impl FromStr for SimulatedFigure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("there is no simulated figure {text:?}"))
                .hint(format!("choose one of {names}"))
        })
    }
}
