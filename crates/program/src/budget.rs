//! The budget of one run of a program: time, steps, memory and output.

use std::time::Duration;

use nacre_object::limits::{MAX_REPLY_BYTES, MAX_TRANSACTION_BYTES};

/// The time limit of one run. A class method delays other objects on the same thread, so this limit
/// is about the longest delay that a client should see. Ordinary methods take microseconds.
pub const DEFAULT_TIME: Duration = Duration::from_millis(250);
/// The limit of one run's steps: calls, loop iterations and pattern-matcher steps. This limit is
/// for simulations whose clock stands still. With a real clock, the time limit ends a run first,
/// because a step takes over 10 ns.
pub const DEFAULT_STEPS: u64 = 50_000_000;
/// The memory of one run: as many bytes as one transaction may change. Garbage counts until the VM
/// collects it.
pub const DEFAULT_MEMORY_BYTES: usize = MAX_TRANSACTION_BYTES;
/// The output of one run: as much as a reply can carry.
pub const DEFAULT_OUTPUT_BYTES: usize = MAX_REPLY_BYTES;
/// The most bytes of a script's source. No budget interrupts compiling, which takes milliseconds
/// for this length.
pub const MAX_SOURCE_BYTES: usize = 256 * 1024;

const _: () = assert!(DEFAULT_OUTPUT_BYTES <= DEFAULT_MEMORY_BYTES);

/// The budget of one run. Exceeding any limit ends the run with `Exhausted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The run's CPU time, if the clock can measure the CPU time of a thread; otherwise the clock's
    /// monotonic time.
    pub time: Duration,
    /// Calls, loop iterations and pattern-matcher steps.
    pub steps: u64,
    /// The bytes that the Lua VM may allocate in the run, beyond what it held before. The run may
    /// use as many bytes again of memory outside of the VM, for buffer lists.
    pub memory_bytes: usize,
    /// Bytes it may hand back.
    pub output_bytes: usize,
}

impl Budget {
    /// The budget of programs whose hook sets no other.
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
