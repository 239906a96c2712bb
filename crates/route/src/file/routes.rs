//! `Routes`: everything that a file of rules says.

use std::collections::BTreeMap;

use nacre_object::{EntityName, ObjectId, Result, TenantName};

use super::Topology;
use crate::model::{
    ApplicationName, ObjectMatch, Operation, Operations, Rule, SourceMatch, SwitchName,
};
use crate::rules::RuleTable;

/// Rules that an application installs at one switch in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// Whose.
    pub application: ApplicationName,
    /// Where.
    pub switch: SwitchName,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A right to some objects that sources have without rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who has it: an entity, a tenant, or everybody.
    pub source: SourceMatch,
    /// What they may do.
    pub operations: Operations,
    /// To which objects.
    pub object: ObjectMatch,
}

impl Grant {
    /// Whether it lets somebody do this.
    pub fn permits(
        &self,
        source: &EntityName,
        tenant: &TenantName,
        operation: Operation,
        object: &ObjectId,
    ) -> bool {
        let is_theirs = match &self.source {
            SourceMatch::Any => true,
            SourceMatch::Entity(name) => name == source,
            SourceMatch::Tenant(name) => name == tenant,
            SourceMatch::Layer(_) => false,
        };
        is_theirs && self.operations.contains(operation) && self.object.matches(object)
    }
}

/// A network with its grants and its rules. `docs/routes.md` describes the file format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    /// The network.
    pub topology: Topology,
    /// The grants. Without any, everybody may do everything.
    pub grants: Vec<Grant>,
    /// The prefixes of all objects that hold routed data. These objects are hidden from clients.
    pub reserved: Vec<ObjectMatch>,
    /// The rules, in the order of installation.
    pub insertions: Vec<Insertion>,
}

impl Routes {
    /// The rules of each switch, installed.
    ///
    /// # Errors
    /// As [`RuleTable::insert`].
    pub fn tables(&self) -> Result<BTreeMap<SwitchName, RuleTable>> {
        let mut tables: BTreeMap<SwitchName, RuleTable> = BTreeMap::new();
        for (switch, _) in &self.topology.switches {
            tables.entry(switch.clone()).or_default();
        }
        for Insertion { switch, rules, .. } in &self.insertions {
            let table = tables.entry(switch.clone()).or_default();
            table.insert(rules.clone()).map_err(|error| error.on(switch))?;
        }
        Ok(tables)
    }
}
