//! Who may call the class by which nodes deliver messages.

use nacre_object::{ClassCall, ObjectId};
use nacre_registry::CallNeed;

use crate::class::CLASS;

/// Only nodes call the class, for the entity that sent a message.
pub fn channels_call_rule<'a>(call: &ClassCall, _: &'a ObjectId) -> Option<CallNeed<'a>> {
    (call.class.as_str() == CLASS).then_some(CallNeed::Admin)
}
