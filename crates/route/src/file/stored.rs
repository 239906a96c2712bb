//! The rules of one application as the map `routes` stores them: the entry `application/NAME`, in
//! JSON.

use std::collections::BTreeSet;

use nacre_object::{ApplicationName, ProgramName, Result};
use serde::{Deserialize, Serialize};

use crate::model::Rule;

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
    pub fn programs(&self, name: &ApplicationName) -> Result<NamedPrograms> {
        let mut programs = NamedPrograms::default();
        for insertion in &self.insertions {
            programs.add(&insertion.rules(name)?);
        }
        Ok(programs)
    }
}

/// The programs that rules name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedPrograms {
    /// Route programs, which decide where IO goes.
    pub routes: BTreeSet<ProgramName>,
    /// Waypoints, which IO passes.
    pub waypoints: BTreeSet<ProgramName>,
}

impl NamedPrograms {
    /// Adds those that some rules name.
    pub fn add<'a>(&mut self, rules: impl IntoIterator<Item = &'a Rule>) {
        for rule in rules {
            self.routes.extend(rule.destination.program().cloned());
            self.waypoints.extend(rule.destination.waypoint_program());
        }
    }

    /// Adds others.
    pub fn extend(&mut self, others: Self) {
        self.routes.extend(others.routes);
        self.waypoints.extend(others.waypoints);
    }
}
