//! Direct reads: clients read routed bytes straight from the node that keeps them. See the module
//! `direct` of the crate `route` for the protocol and its invariants. The service `route` calls this
//! module.
//!
//! 1. [`home`]: the switch of the home tells clients its rules and where bytes are, and gives permits.
//! 2. [`keeper`]: the node that keeps the bytes serves direct reads.

mod home;
mod keeper;

pub(super) use self::home::{Permitted, settle_or_wait};
pub(super) use self::keeper::{DirectKeeper, check_reader};
