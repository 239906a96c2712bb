//! Rules by which other crates say which rights a call of their classes needs.
//!
//! For example, clients use a log by calling classes of the log's objects. An entity with a right
//! on the log may make these calls, although it has no right on the pool of the objects. The crate
//! `nacre-log` defines a [`CallRule`] that names these calls. So this crate needs to know nothing
//! about the classes of other crates.

use nacre_object::{ClassCall, ObjectId};

use super::grant::Right;

/// The right that a call of a service's class needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallNeed<'a> {
    /// A right on a log.
    Log {
        /// The log.
        log: &'a str,
        /// Which right.
        right: Right,
    },
    /// Only nodes call it, on their own behalf.
    Admin,
}

/// Says which right a call on an object needs. `None` if the class belongs to another service.
pub type CallRule = for<'a> fn(&ClassCall, &'a ObjectId) -> Option<CallNeed<'a>>;

/// The rules of all services of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallRules(&'static [CallRule]);

impl CallRules {
    /// These rules. The first that knows a class decides.
    pub const fn new(rules: &'static [CallRule]) -> Self {
        Self(rules)
    }

    /// Returns the right that a call on an object needs, if a rule knows the call's class.
    pub(super) fn need_of<'a>(
        &self,
        call: &ClassCall,
        object: &'a ObjectId,
    ) -> Option<CallNeed<'a>> {
        self.0.iter().find_map(|rule| rule(call, object))
    }
}
