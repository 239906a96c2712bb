//! `FigureChart`: a chart of a figure of balancing, simulated or measured on CephFS.

use nacre_object::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::plot::{Fields, plot_rows};

/// A chart: rows whose fields are named as the axes are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureChart {
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
    /// Whether its axes count by factors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_logarithmic: bool,
    /// The points.
    pub rows: Vec<Map<String, Value>>,
}

impl FigureChart {
    /// A chart with no points yet; the last three are the fields.
    pub fn new(name: &str, title: &str, (x, y, by): (&str, &str, &str)) -> Self {
        let [name, title, x, y, by] = [name, title, x, y, by].map(str::to_owned);
        Self { name, title, x, y, by, is_logarithmic: false, rows: vec![] }
    }

    /// The same chart with logarithmic axes.
    pub fn logarithmic(self) -> Self {
        Self { is_logarithmic: true, ..self }
    }

    /// Adds a point.
    pub fn push(&mut self, x: impl Into<Value>, y: f64, by: &str) {
        let mut row = Map::new();
        row.insert(self.x.clone(), x.into());
        row.insert(self.y.clone(), json!(rounded(y)));
        row.insert(self.by.clone(), json!(by));
        self.rows.push(row);
    }

    /// Draws the chart. `how` follows the title, and says whether the points were measured or
    /// simulated.
    ///
    /// # Errors
    /// `Invalid` if the chart has no points.
    pub fn plot(&self, how: &str) -> Result<String> {
        let rows: Vec<_> = self.rows.iter().cloned().map(Value::Object).collect();
        let (x, y, by) = (self.x.clone(), self.y.clone(), Some(self.by.clone()));
        let is_logarithmic = self.is_logarithmic;
        plot_rows(
            &format!("{}, {how}", self.title),
            &rows,
            &Fields { rows: None, x, y, by, is_logarithmic },
        )
    }
}

/// Rounds to three decimal places; more digits would only make the files longer.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
