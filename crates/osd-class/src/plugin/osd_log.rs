//! What programs say and how they fail, in the log of the OSD.

use nacre_class::{FaultSink, ProgramFault, ProgramLog};

use super::ffi;

/// The level of what the operator must know of: always written.
pub(super) const ERROR: i32 = 0;
/// The level of faults: the client is told, so they are written only where `debug_objclass` asks for
/// them, and a program that always fails fills no disk.
const FAULT: i32 = 2;
/// The least level of what programs say, for the same reason.
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
