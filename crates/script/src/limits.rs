//! Every bound of this crate with its reason. The bounds of one run are a
//! [`nacre_program::Budget`].

use std::time::Duration;

use nacre_program::DEFAULT_MEMORY_BYTES;

/// Sources up to this many bytes are searched for names that the environment lacks, so that errors
/// can tell which name is missing.
pub(crate) const MAX_NAMED_SOURCE_BYTES: usize = 32 * 1024;
/// How many scripts a VM keeps loaded. The least recently used one is dropped first.
pub const MAX_CACHED_CHUNKS: usize = 64;
/// The deepest nesting of a [`crate::Value`] that is passed into or out of a VM.
pub const MAX_VALUE_DEPTH: usize = 16;
/// The most entries of a [`crate::Value`] that is passed into or out of a VM, over all its tables.
pub const MAX_VALUE_ENTRIES: usize = 65_536;

/// How many steps a script may make between two checks of its budget. A check reads a clock, which
/// costs several times as much as a step. If these steps together took long, the meter checks at
/// every step from then on ([`QUICK_STEPS_TIME`]).
pub(crate) const MAX_UNEXAMINED_STEPS: u32 = 7;
/// If the steps between two checks take longer than this, the meter checks at every step. Usually
/// these steps take about a hundredth of this time.
pub(crate) const QUICK_STEPS_TIME: Duration = Duration::from_micros(100);
/// How many bytes of garbage a VM may keep in its heap between runs, and how many in host memory.
/// To collect less at a time would cost more than it frees.
pub(crate) const MAX_RETAINED_BYTES: usize = 4 * 1024 * 1024;
/// How many globals a new environment can hold before it grows.
pub(crate) const EXPECTED_GLOBALS: usize = 16;
/// A search is not checked if the length of its subject times the length of its pattern (or
/// separator) is at most this. Even a quadratic search then takes less than a millisecond.
pub(crate) const MAX_UNEXAMINED_WORK: usize = 1 << 20;
/// How many characters one item of a pattern may test in total over the subject. The matcher cannot
/// be interrupted while it repeats an item. This many tests take tens of milliseconds.
pub(crate) const MAX_PATTERN_WORK: usize = 1 << 26;
/// The longest pattern in bytes. The matcher cannot be interrupted within literal characters.
pub(crate) const MAX_PATTERN_BYTES: usize = 64 * 1024;

const _: () = assert!(MAX_RETAINED_BYTES < DEFAULT_MEMORY_BYTES);
const _: () = assert!(MAX_UNEXAMINED_WORK < MAX_PATTERN_WORK);
