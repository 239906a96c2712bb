//! The rules of all services that say who may call their classes, in one list.

use nacre_channels::channels_call_rule;
use nacre_log::log_call_rule;
use nacre_registry::CallRules;

/// The rights that calls of services' classes need.
pub(crate) const CALL_RULES: CallRules = CallRules::new(&[channels_call_rule, log_call_rule]);
