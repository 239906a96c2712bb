//! Every bound of this crate with its reason. The bounds of one run are a
//! [`nacre_program::Budget`].

use std::time::Duration;

use nacre_program::DEFAULT_MEMORY_BYTES;

/// The longest source, in bytes, that is searched for names that its environment lacks. Errors then
/// tell which name is missing.
pub(crate) const MAX_NAMED_SOURCE_BYTES: usize = 32 * 1024;
/// How many scripts a VM keeps loaded. The least recently used one is dropped first.
pub const MAX_CACHED_CHUNKS: usize = 64;
/// The deepest nesting of a [`crate::Value`] that is passed into or out of a VM.
pub const MAX_VALUE_DEPTH: usize = 16;
/// The most entries of a [`crate::Value`] that is passed into or out of a VM, over all its tables.
pub const MAX_VALUE_ENTRIES: usize = 65_536;

/// How many steps a script makes without a check of its budget. A check reads a clock, which costs
/// several times as much as a step. One step can be a call into the library, which the memory
/// budget keeps short. After steps that took long, the meter checks at every step.
pub(crate) const MAX_UNEXAMINED_STEPS: u32 = 7;
/// If the steps between two checks take longer than this, the meter checks at every step. Usually
/// they take about a hundredth of it.
pub(crate) const QUICK_STEPS_TIME: Duration = Duration::from_micros(100);
/// How many bytes of garbage a VM may keep in its heap between runs; as much again may stay in host
/// memory. Collecting smaller amounts costs more than it frees.
pub(crate) const MAX_RETAINED_BYTES: usize = 4 * 1024 * 1024;
/// How many globals a new environment can hold before it grows.
pub(crate) const EXPECTED_GLOBALS: usize = 16;
/// The largest product of the lengths of subject and pattern (or separator) that a search may have
/// without further checks. Even if the library's search is quadratic, this takes less than a
/// millisecond.
pub(crate) const MAX_UNEXAMINED_WORK: usize = 1 << 20;
/// How many characters one pattern item may test on the whole subject. The matcher cannot be
/// interrupted while it repeats one item; this many tests take it tens of milliseconds.
pub(crate) const MAX_PATTERN_WORK: usize = 1 << 26;
/// The longest pattern in bytes. The matcher cannot be interrupted within literal characters.
pub(crate) const MAX_PATTERN_BYTES: usize = 64 * 1024;

const _: () = assert!(MAX_RETAINED_BYTES < DEFAULT_MEMORY_BYTES);
const _: () = assert!(MAX_UNEXAMINED_WORK < MAX_PATTERN_WORK);
