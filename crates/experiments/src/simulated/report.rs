//! `SimulatedReport`: the result of a simulated figure, which is stored as JSON. The figure's
//! charts are drawn from this report alone.

use nacre_balance::CostModel;
use serde::{Deserialize, Serialize};

use crate::figure_chart::{FigureChart, rounded};
use crate::recorded_build::BuildSummary;
use crate::stored_report::StoredReport;

/// The result of a simulated figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulatedReport {
    /// Which experiment.
    pub experiment: String,
    /// What it shows.
    pub title: String,
    /// What made it.
    pub command: String,
    /// Nothing of it was measured on a cluster.
    pub is_simulated: bool,
    /// The recorded build that clients do, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildSummary>,
    /// The seeds of the random numbers. Everything was simulated once for each seed.
    pub seeds: Vec<u64>,
    /// The costs of the balancing simulator, if it computed the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostModel>,
    /// The values of the paper that has this figure, each with the simulated value.
    pub findings: Vec<Finding>,
    /// What is drawn.
    pub charts: Vec<FigureChart>,
}

/// A value of the paper that has the figure, and the simulated value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Of what.
    pub finding: String,
    /// Of both numbers.
    pub unit: String,
    /// The value in the paper; `None` if the paper gives none.
    pub paper: Option<f64>,
    /// What was simulated.
    pub simulated: f64,
}

impl Finding {
    /// A value of the paper beside the simulated value, rounded to a tenth of a percent.
    pub(super) fn new(
        finding: impl Into<String>,
        unit: &str,
        paper: impl Into<Option<f64>>,
        simulated: f64,
    ) -> Self {
        let (finding, unit) = (finding.into(), unit.to_owned());
        Self { finding, unit, paper: paper.into(), simulated: rounded(simulated) }
    }
}

impl StoredReport for SimulatedReport {}
