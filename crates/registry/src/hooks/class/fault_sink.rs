//! What a node's cluster log hears of the class runtime.

use nacre_class::FaultSink;

use crate::events::{FaultReporter, ProgramFault, ProgramSite};
use crate::programs::{ProgramId, ProgramKind};

/// Faults of class programs, by name, and of map programs, as `map/NAME`. A one-off script is its caller's business,
/// who was told.
impl FaultSink for FaultReporter {
    fn fault(&self, fault: &nacre_class::ProgramFault<'_>) {
        let program = match fault.program.split_once('/') {
            Some(_) => fault.program.parse(),
            None => fault.program.parse().map(|name| ProgramId::new(ProgramKind::Class, name)),
        };
        if let (Ok(ProgramId { kind, name }), 1..) = (program, fault.version) {
            let site = ProgramSite { kind, name, version: fault.version, line: fault.line };
            self.report(ProgramFault::new(site, fault.error));
        }
    }
}
