//! Captures the fault of the running call, so that the reply can carry it to the client.

use std::cell::RefCell;
use std::sync::Arc;

use nacre_class::{FaultSink, ProgramFault, ProgramLog};
use nacre_protocol::{encode, proto as pb};

thread_local! {
    static FAULT: RefCell<Option<pb::OsdFault>> = const { RefCell::new(None) };
}

/// Passes log lines and faults of programs on, and keeps the last fault of each thread.
pub(crate) struct FaultCapture(pub Arc<dyn FaultSink>);

impl FaultCapture {
    /// Takes the last fault on this thread, if there was one since the last call.
    pub fn take() -> Option<pb::OsdFault> {
        FAULT.take()
    }
}

impl FaultSink for FaultCapture {
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
