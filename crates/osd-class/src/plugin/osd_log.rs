//! Writes log lines and faults of programs to the log of the OSD.

use nacre_class::{FaultSink, ProgramFault, ProgramLog};

use super::ffi;

/// The log level of messages that the operator must see. They are always written.
pub(super) const ERROR: i32 = 0;
/// The log level of faults. The client gets the error of a fault anyway, so the OSD logs it only if
/// `debug_objclass` is at least this level. Otherwise a program that always fails would fill the
/// disk with log lines.
const FAULT: i32 = 2;
/// The lowest level of programs' own log lines. They could fill the disk in the same way.
const PROGRAM: i64 = 5;
/// The level behind which Ceph looks at none.
const LEAST_IMPORTANT: i64 = 20;

/// The log of this OSD.
pub(super) struct OsdLog;

impl FaultSink for OsdLog {
    fn fault(&self, fault: &ProgramFault<'_>) {
        let ProgramFault { program, version, method, error, .. } = fault;
        ffi::log(FAULT, &format!("{program} version {version}, {method}: {error}"));
    }

    fn log(&self, line: &ProgramLog<'_>) {
        let level = line.level.clamp(PROGRAM, LEAST_IMPORTANT) as i32;
        ffi::log(level, &format!("{} version {}: {}", line.program, line.version, line.text));
    }
}
