//! Reports rejected peers to the cluster log.

use nacre_registry::RefusalReporter;
use nacre_wire::{Refusal, RefusalObserver, RefusalReason};

/// Writes the peers that the server refuses to the cluster log.
#[derive(Debug)]
pub struct ToldRefusals(pub RefusalReporter);

impl RefusalObserver for ToldRefusals {
    fn refused(&self, refusal: Refusal) {
        // The guard has already reported rejected entities, each by its name.
        if refusal.reason != RefusalReason::Entity {
            self.0.report(refusal.reason.as_str(), &refusal.from, refusal.text);
        }
    }
}
