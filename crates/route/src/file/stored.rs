//! The rules of one application as the map `routes` stores them: the entry `application/NAME`, in
//! JSON.

use std::collections::BTreeSet;

use nacre_object::{ApplicationName, ProgramName, Result};
use serde::{Deserialize, Serialize};

use crate::model::{Destination, Rule};

/// The prefix of an application's key in the map.
pub const APPLICATION_PREFIX: &str = "application/";
/// The prefix of the key in the map that says which program makes the rules of an application.
pub const CONTROL_PREFIX: &str = "control/";

/// The rules of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredApplication {
    /// Rules of applications with smaller numbers come first.
    pub order: u64,
    /// Whether it was stored although the analysis found problems.
    #[serde(default)]
    pub is_forced: bool,
    /// Its insertions.
    pub insertions: Vec<StoredInsertion>,
}

/// Rules that are installed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInsertion {
    /// The target whose switch gets the rules, or `every`.
    pub switch: String,
    /// The rules, each as a line of a rule file.
    pub rules: Vec<String>,
}

impl StoredInsertion {
    /// Parses the rules.
    ///
    /// # Errors
    /// `Invalid` if a rule is malformed.
    pub fn rules(&self, application: &ApplicationName) -> Result<Vec<Rule>> {
        self.rules.iter().map(|rule| Rule::from_line(application, rule)).collect()
    }
}

impl StoredApplication {
    /// The programs that its rules name.
    ///
    /// # Errors
    /// As [`StoredInsertion::rules`].
    pub fn programs(&self, name: &ApplicationName) -> Result<BTreeSet<ProgramName>> {
        let mut programs = BTreeSet::new();
        for insertion in &self.insertions {
            for rule in insertion.rules(name)? {
                if let Destination::Program(program) = rule.destination {
                    programs.insert(program);
                }
            }
        }
        Ok(programs)
    }
}
