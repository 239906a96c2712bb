//! The common parts of all reports: the machine on which a figure was measured, and the storage as
//! JSON.

use nacre_object::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// What was measured, when, where and how: the beginning of each report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which experiment.
    pub experiment: String,
    /// What it shows.
    pub title: String,
    /// The command that made it.
    pub command: String,
    /// When it was done, in UTC.
    pub measured_at: String,
    /// Where.
    pub machine: Machine,
    /// Special circumstances of the measurement, in the words of the person who measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl Measurement {
    /// A measurement on this machine that nobody has [recorded](Self::record) yet.
    pub fn new(experiment: &str, title: &str) -> Self {
        Self {
            experiment: experiment.to_owned(),
            title: title.to_owned(),
            command: String::new(),
            measured_at: String::new(),
            machine: Machine::this(),
            remark: None,
        }
    }

    /// Records the command that made the report, the time, and a remark.
    pub fn record(&mut self, command: String, measured_at: String, remark: Option<String>) {
        (self.command, self.measured_at, self.remark) = (command, measured_at, remark);
    }
}

/// A report that is kept as JSON.
pub trait StoredReport: Serialize + DeserializeOwned {
    /// Reads a stored report.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("the file is not a report of a figure: {error}"))
        })
    }

    /// The text of the report, to be stored.
    ///
    /// # Errors
    /// `Invalid` if JSON cannot hold the report.
    fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| {
            Error::invalid(format!("the report cannot be written as JSON: {error}"))
        })?;
        Ok(text + "\n")
    }
}
