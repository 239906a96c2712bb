//! `SimulatedReport`: what came of a simulated figure. It is kept as JSON, and its charts are made of it alone.

use nacre_balance::CostModel;
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::plot::{Fields, plot_rows};

/// What came of a simulated figure.
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
    /// What chance depends on: all was simulated once for each.
    pub seeds: Vec<u64>,
    /// How long things took.
    pub costs: CostModel,
    /// What the paper found, and what was simulated.
    pub findings: Vec<Finding>,
    /// What is drawn.
    pub charts: Vec<SimulatedChart>,
}

/// A number of the paper, and the same as simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Of what.
    pub finding: String,
    /// Of both numbers.
    pub unit: String,
    /// What the paper says; `None` where it gives no number.
    pub paper: Option<f64>,
    /// What was simulated.
    pub simulated: f64,
}

/// A chart: rows whose fields are named as the axes are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulatedChart {
    /// The name of its file, without the ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The field along the x axis.
    pub x: String,
    /// The field that is drawn.
    pub y: String,
    /// A line, or a colour, for each value of this field.
    pub by: String,
    /// The points.
    pub rows: Vec<Map<String, Value>>,
}

impl Finding {
    /// A number of the paper beside what was simulated, to a tenth of a percent.
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

impl SimulatedChart {
    pub(super) fn new(name: &str, title: &str, (x, y, by): (&str, &str, &str)) -> Self {
        let own = str::to_owned;
        Self { name: own(name), title: own(title), x: own(x), y: own(y), by: own(by), rows: vec![] }
    }

    /// Adds a point.
    pub(super) fn push(&mut self, x: impl Into<Value>, y: f64, by: &str) {
        let mut row = Map::new();
        row.insert(self.x.clone(), x.into());
        row.insert(self.y.clone(), json!(rounded(y)));
        row.insert(self.by.clone(), json!(by));
        self.rows.push(row);
    }

    /// Draws it.
    ///
    /// # Errors
    /// `Invalid` if it has no points.
    pub fn plot(&self) -> Result<String> {
        let rows: Vec<_> = self.rows.iter().cloned().map(Value::Object).collect();
        let (x, y, by) = (self.x.clone(), self.y.clone(), Some(self.by.clone()));
        plot_rows(&format!("{}, simulated", self.title), &rows, &Fields { rows: None, x, y, by })
    }
}

impl SimulatedReport {
    /// Reads what was kept.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::invalid(format!("no report: {error}")))
    }

    /// To be kept.
    ///
    /// # Errors
    /// None that is known of.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::invalid(format!("the report cannot be written: {error}")))?;
        Ok(text + "\n")
    }
}

/// Three places behind the point: more says nothing, and fills files.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
