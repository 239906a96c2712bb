//! Reports faults of the class runtime to the cluster log.

use nacre_class::FaultSink;

use crate::events::{FaultReporter, ProgramFault, ProgramSite};
use crate::programs::{ProgramId, ProgramKind};

/// Reports faults of class programs and of map programs to the cluster log. Does not report faults
/// of one-off scripts, because their caller gets the error.
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
