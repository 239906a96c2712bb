//! What one run of a program may use.

use std::time::Duration;

use nacre_object::limits::{MAX_REPLY_BYTES, MAX_TRANSACTION_BYTES};

/// Time of one run. A class method holds up the objects that share its thread, so this is about the
/// longest stall a client should see; honest methods take microseconds.
pub const DEFAULT_TIME: Duration = Duration::from_millis(250);
/// Steps of one run: calls, loop iterations and pattern-matcher steps. What ends a run under a
/// clock that stands still; under a real one the time is used up first (a step takes over 10 ns).
pub const DEFAULT_STEPS: u64 = 50_000_000;
/// Memory of one run: as much as a transaction may change. Garbage counts until it is collected.
pub const DEFAULT_MEMORY_BYTES: usize = MAX_TRANSACTION_BYTES;
/// Output of one run: what a reply can carry.
pub const DEFAULT_OUTPUT_BYTES: usize = MAX_REPLY_BYTES;
/// Source of one script. Compiling it is the one thing no budget interrupts; this much takes
/// milliseconds.
pub const MAX_SOURCE_BYTES: usize = 256 * 1024;

const _: () = assert!(DEFAULT_OUTPUT_BYTES <= DEFAULT_MEMORY_BYTES);

/// What one run may use. Exceeding any of it ends the run with `Exhausted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Of a CPU, for its thread, where the clock it is run with can tell that; else by that clock's time.
    pub time: Duration,
    /// Calls, loop iterations and pattern-matcher steps.
    pub steps: u64,
    /// Bytes the VM may allocate beyond what it held before; and as many bytes again of host memory
    /// (buffer lists).
    pub memory_bytes: usize,
    /// Bytes it may hand back.
    pub output_bytes: usize,
}

impl Budget {
    /// What a program may use whose hook says nothing else.
    pub const DEFAULT: Self = Self {
        time: DEFAULT_TIME,
        steps: DEFAULT_STEPS,
        memory_bytes: DEFAULT_MEMORY_BYTES,
        output_bytes: DEFAULT_OUTPUT_BYTES,
    };
}

impl Default for Budget {
    fn default() -> Self {
        Self::DEFAULT
    }
}
