//! The fault of the call under way, on its way to the client that asked.

use std::cell::RefCell;
use std::sync::Arc;

use nacre_class::{FaultSink, ProgramFault, ProgramLog};
use nacre_protocol::{encode, proto as pb};

thread_local! {
    static FAULT: RefCell<Option<pb::OsdFault>> = const { RefCell::new(None) };
}

/// Passes on what programs say and how they fail, and keeps the last fault of each thread.
pub(crate) struct Overheard(pub Arc<dyn FaultSink>);

impl Overheard {
    /// The fault since this was last asked on this thread.
    pub fn take() -> Option<pb::OsdFault> {
        FAULT.take()
    }
}

impl FaultSink for Overheard {
    fn fault(&self, fault: &ProgramFault<'_>) {
        FAULT.set(Some(pb::OsdFault {
            program: fault.program.to_owned(),
            version: fault.version,
            method: fault.method.to_owned(),
            line: fault.line,
            limit: fault.limit.map(|limit| limit.as_str().to_owned()),
            error: Some(encode::error(fault.error)),
        }));
        self.0.fault(fault);
    }

    fn log(&self, line: &ProgramLog<'_>) {
        self.0.log(line);
    }
}
