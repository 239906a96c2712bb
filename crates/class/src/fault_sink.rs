//! Receives faults and log lines of programs. On a node they go to the cluster log.

use std::sync::{Mutex, PoisonError};

use nacre_object::{Error, RemoteFault};
use nacre_program::Limit;

/// A fault: a program failed one of its calls.
#[derive(Debug)]
pub struct ProgramFault<'a> {
    /// The class; `eval` for a one-off script; `map/NAME` for the program of a map.
    pub program: &'a str,
    /// The program's version; 0 for a one-off script.
    pub version: u64,
    /// The method that was called.
    pub method: &'a str,
    /// The line, 1-based, where known.
    pub line: Option<u32>,
    /// The error that the caller got: `Fault`, or `Exhausted` if the program exceeded its budget.
    pub error: &'a Error,
    /// The limit that the program exceeded, if known.
    pub limit: Option<Limit>,
}

/// A line that a program logged by `objclass.log`.
#[derive(Debug)]
pub struct ProgramLog<'a> {
    /// The class, or `eval` for a one-off script.
    pub program: &'a str,
    /// The program's version; 0 for a one-off script.
    pub version: u64,
    /// Its level: lower is more important.
    pub level: i64,
    /// The line, cut at `MAX_LOG_BYTES`.
    pub text: &'a str,
}

/// Receives the faults of class programs. Engines call a sink on their threads, so an
/// implementation must return quickly. It must also limit how many faults it reports each second.
pub trait FaultSink: Send + Sync {
    /// A program failed a call.
    fn fault(&self, fault: &ProgramFault<'_>);

    /// A program logged a line. Ignored by default.
    fn log(&self, line: &ProgramLog<'_>) {
        let _ = line;
    }
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaultSink;

impl FaultSink for NoFaultSink {
    fn fault(&self, _: &ProgramFault<'_>) {}
}

/// Collects the faults of a call without reporting them. The engine reports them later if it uses
/// the call's result. Log lines go to `next` at once.
pub(crate) struct HeldFaults<'a> {
    next: &'a dyn FaultSink,
    faults: Mutex<Vec<(RemoteFault, Error)>>,
}

impl<'a> HeldFaults<'a> {
    /// Before this sink.
    pub fn before(next: &'a dyn FaultSink) -> Self {
        Self { next, faults: Mutex::default() }
    }

    /// The faults, in order.
    pub fn into_faults(self) -> Vec<(RemoteFault, Error)> {
        self.faults.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultSink for HeldFaults<'_> {
    fn fault(&self, fault: &ProgramFault<'_>) {
        let held = RemoteFault {
            program: fault.program.to_owned(),
            version: fault.version,
            method: fault.method.to_owned(),
            line: fault.line,
            limit: fault.limit.map(|limit| limit.as_str().to_owned()),
        };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push((held, fault.error.clone()));
    }

    fn log(&self, line: &ProgramLog<'_>) {
        self.next.log(line);
    }
}
