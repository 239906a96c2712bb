//! `Routes`: the contents of a rule file.

use std::collections::BTreeMap;

use nacre_object::{EntityName, ObjectId, Result, TenantName};

use super::Topology;
use crate::model::{
    ApplicationName, ObjectMatch, Operation, Operations, Rule, SourceMatch, SwitchName,
};
use crate::rules::RuleTable;

/// Rules that an application installs at one switch together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// The application.
    pub application: ApplicationName,
    /// The switch.
    pub switch: SwitchName,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A right that some sources have to some objects, independent of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The sources that have it: an entity, a tenant, or everybody.
    pub source: SourceMatch,
    /// The operations that they may do.
    pub operations: Operations,
    /// The objects.
    pub object: ObjectMatch,
}

impl Grant {
    /// Whether this grant allows the source to do this operation on the object.
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
    /// The grants. If there are none, everybody may do everything.
    pub grants: Vec<Grant>,
    /// The prefixes of all objects that hold routed data. These objects are hidden from clients.
    pub reserved: Vec<ObjectMatch>,
    /// The rules, in the order of installation.
    pub insertions: Vec<Insertion>,
}

impl Routes {
    /// The rule table of each switch.
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
