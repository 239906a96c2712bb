//! Decides what an entity may do, from all of its grants. The decision is pure: no IO, no clock.
//!
//! **Invariant:** an action that no grant covers is refused. No grant takes away what another grant
//! allows.

use nacre_object::{Demand, ObjectId};

use super::call_rules::CallRules;
use super::grant::{Grant, Right, Rights, Scope};
use super::need::{Need, needs_of};

/// The class that runs scripts its callers send.
pub(super) const SCRIPTS: &str = "lua";

/// Grants of one entity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants(Vec<Grant>);

impl FromIterator<Grant> for Grants {
    fn from_iter<Iter: IntoIterator<Item = Grant>>(grants: Iter) -> Self {
        Self(grants.into_iter().collect())
    }
}

impl Grants {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Adds a grant that is not there yet.
    pub fn add(&mut self, grant: Grant) {
        if !self.0.contains(&grant) {
            self.0.push(grant);
        }
    }

    /// Removes a grant. Returns whether the entity had it.
    pub fn remove(&mut self, grant: &Grant) -> bool {
        let before = self.0.len();
        self.0.retain(|each| each != grant);
        self.0.len() < before
    }

    /// Whether these grants cover all rights that a demand (a request, watch, listing or service
    /// call of a client) needs. `rules` say which rights calls of other crates' classes need.
    pub fn allows(&self, demand: Demand<'_>, rules: CallRules) -> bool {
        needs_of(demand, rules, &mut |need| self.covers(&need).then_some(()).ok_or(())).is_ok()
    }

    /// Whether some grant covers a need.
    pub fn covers(&self, need: &Need<'_>) -> bool {
        self.0.iter().any(|grant| match grant {
            Grant::Admin => true,
            Grant::Some(rights, scope) => covers(*rights, scope, need),
        })
    }
}

fn covers(rights: Rights, scope: &Scope, need: &Need<'_>) -> bool {
    match (need, scope) {
        (Need::Object { right, object }, Scope::Objects { pool, class: None, prefix, .. }) => {
            rights.has(*right) && holds(pool.as_str(), prefix, object)
        }
        (
            Need::Call { class: called, method: name, object, .. },
            Scope::Objects { pool, class, method, prefix },
        ) => {
            let enough = if called.as_str() == SCRIPTS {
                [Right::Read, Right::Write, Right::Execute].iter().all(|right| rights.has(*right))
            } else {
                rights.has(Right::Execute)
            };
            enough
                && class.as_ref().is_none_or(|class| class == *called)
                && method.as_ref().is_none_or(|method| method == *name)
                && holds(pool.as_str(), prefix, object)
        }
        (Need::Call { log: Some((name, right)), .. }, Scope::Log(log)) => {
            // The deletion of a log also seals and trims its objects.
            let may = |right| {
                let deletes = right == Right::Write && rights.has(Right::Delete);
                deletes || has_on_log(rights, right)
            };
            may(*right) && log.matches(name)
        }
        (
            Need::Names { pool: listed, prefix: asked },
            Scope::Objects { pool, class: None, prefix, .. },
        ) => {
            rights.has(Right::Read)
                && pool.as_str() == *listed
                && asked.starts_with(prefix.as_str())
        }
        (Need::Map { right, map: name }, Scope::Map(map)) => {
            rights.has(*right) && map.matches(name)
        }
        (Need::MapNames, Scope::Map(names) | Scope::Log(names)) => {
            rights.has(Right::Read) && names.is_any()
        }
        (Need::Program { right, program: name }, Scope::Program(program)) => {
            rights.has(*right) && program.matches(name)
        }
        (Need::AnyProgram { right }, Scope::Program(_)) => rights.has(*right),
        (Need::Log { right, log: name }, Scope::Log(log)) => {
            has_on_log(rights, *right) && log.matches(name)
        }
        (Need::LogView { log: name }, Scope::Log(log)) => log.matches(name),
        (Need::Service { service: asked, method: name }, Scope::Service { service, method }) => {
            service == asked && method.as_ref().is_none_or(|method| method == name)
        }
        (Need::Events, Scope::Events) => true,
        _ => false,
    }
}

/// Whether an object is in `pool` and its name starts with `prefix`.
fn holds(pool: &str, prefix: &str, object: &ObjectId) -> bool {
    object.pool.as_str() == pool && object.name.as_str().starts_with(prefix)
}

/// Whether rights on a log include one. The right to write includes the right to append.
fn has_on_log(rights: Rights, right: Right) -> bool {
    rights.has(right) || (right == Right::Append && rights.has(Right::Write))
}
