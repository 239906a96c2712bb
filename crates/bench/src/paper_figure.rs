//! Figures of papers that are measured on nodes: `nacre-bench experiment malacology-sequencer`,
//! `sroute-8-replicas` and others. They share code with benches. Figures of the thesis on SLOs are
//! also simulated.

use std::str::FromStr;

use nacre_experiments::{FigureChart, MeasuredFinding, Measurement, SimulatedFigure, StoredReport};
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::bench::Setup;
use crate::{propagate, route_figures, sequencer_caps, thesis};

/// A figure that is measured on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaperFigure {
    /// Positions of a sequencer by mode.
    Sequencer,
    /// How long an interface's update takes to reach 120 subscribers.
    Updates,
    /// The same with three, on a slow device.
    UpdatesSlowDevice,
    /// IO a second of a switch.
    Switch,
    /// Latencies of a target in a burst.
    Tail,
    /// Reads from copies.
    Replicas,
    /// A cache divided among tenants.
    Caches,
    /// The thesis on SLOs, figures 9 and 10.
    Priority,
    /// The thesis on SLOs, figures 11 and 12.
    RateLimits,
    /// The thesis on SLOs, figures 13 to 18 and table 1.
    Estimators,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperReport {
    /// What was measured, when and where.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// How many times each side was measured.
    pub rounds: usize,
    /// How long each time, in seconds.
    pub span_seconds: f64,
    /// The values of the paper, each with the measured value.
    pub findings: Vec<MeasuredFinding>,
    /// What is drawn.
    pub charts: Vec<FigureChart>,
}

impl StoredReport for PaperReport {}

/// What a measurement gives.
pub(crate) struct Drawn {
    pub findings: Vec<MeasuredFinding>,
    pub charts: Vec<FigureChart>,
}

impl PaperFigure {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Sequencer,
        Self::Updates,
        Self::UpdatesSlowDevice,
        Self::Switch,
        Self::Tail,
        Self::Replicas,
        Self::Caches,
        Self::Priority,
        Self::RateLimits,
        Self::Estimators,
    ];

    /// Its name on the command line, and its folder in `experiments/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequencer => "malacology-sequencer",
            Self::Updates => "malacology-updates",
            Self::UpdatesSlowDevice => "malacology-updates-slow-device",
            Self::Switch => "sroute-5-switch",
            Self::Tail => "sroute-7-tail",
            Self::Replicas => "sroute-8-replicas",
            Self::Caches => "sroute-10-caches",
            Self::Priority => SimulatedFigure::Priority.name(),
            Self::RateLimits => SimulatedFigure::RateLimits.name(),
            Self::Estimators => SimulatedFigure::Estimators.name(),
        }
    }

    /// What it shows.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sequencer => "Positions of a sequencer that one client or two use",
            Self::Updates => "Updates of an interface on their way to 120 subscribers",
            Self::UpdatesSlowDevice => "The same to three subscribers, on a slow device",
            Self::Switch => "IO a second of a switch, by its rules",
            Self::Tail => "Latencies of an overloaded target, without routing and with it",
            Self::Replicas => "Reads of hot objects from the primary and from copies",
            Self::Caches => "Reads of two tenants with one cache and with a divided cache",
            Self::Priority => SimulatedFigure::Priority.title(),
            Self::RateLimits => SimulatedFigure::RateLimits.title(),
            Self::Estimators => SimulatedFigure::Estimators.title(),
        }
    }

    /// Whether the figure can also be measured on Ceph. The bench starts a cluster whose OSDs are slow.
    pub fn is_for_ceph(self) -> bool {
        matches!(
            self,
            Self::Tail
                | Self::Replicas
                | Self::Caches
                | Self::Priority
                | Self::RateLimits
                | Self::Estimators
        )
    }

    /// Measures the figure. If `setup` names the script that starts Ceph clusters, and
    /// [`is_for_ceph`](Self::is_for_ceph) is true, it is measured on Ceph.
    ///
    /// # Errors
    /// Whatever fails under load.
    pub async fn measure(self, setup: &Setup) -> Result<PaperReport> {
        let drawn = match self {
            Self::Sequencer => sequencer_caps::measure_figure(setup).await?,
            Self::UpdatesSlowDevice => propagate::measure_figure(setup, true).await?,
            Self::Updates => propagate::measure_figure(setup, false).await?,
            Self::Switch => route_figures::measure_switch(setup).await?,
            Self::Tail => route_figures::measure_tail(setup).await?,
            Self::Replicas => route_figures::measure_replicas(setup).await?,
            Self::Caches => route_figures::measure_caches(setup).await?,
            Self::Priority => thesis::measure_priority(setup).await?,
            Self::RateLimits => thesis::measure_rate_limits(setup).await?,
            Self::Estimators => thesis::measure_estimators(setup).await?,
        };
        let Drawn { findings, charts } = drawn;
        Ok(PaperReport {
            measurement: Measurement::new(self.name(), self.title()),
            rounds: setup.rounds,
            span_seconds: setup.span.as_secs_f64(),
            findings,
            charts,
        })
    }
}

impl FromStr for PaperFigure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("there is no figure {text:?}"))
                .hint(format!("choose one of {names}"))
        })
    }
}
