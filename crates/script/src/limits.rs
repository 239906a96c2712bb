//! Every bound of this crate with its reason. What one run may use is a [`nacre_program::Budget`].

use std::time::Duration;

use nacre_program::DEFAULT_MEMORY_BYTES;

/// Sources up to this length are searched for names that their environment lacks, so that errors
/// can name them.
pub(crate) const MAX_NAMED_SOURCE_BYTES: usize = 32 * 1024;
/// Scripts a VM keeps loaded, the least recently used going first.
pub const MAX_CACHED_CHUNKS: usize = 64;
/// Nesting of a [`crate::Value`] that crosses the border of a VM.
pub const MAX_VALUE_DEPTH: usize = 16;
/// Entries, all tables together, of a [`crate::Value`] that crosses the border of a VM.
pub const MAX_VALUE_ENTRIES: usize = 65_536;

/// Steps between two looks at a run. A look reads a clock and costs several times a step. A step
/// can be one call into the library, which the memory budget keeps short. After a call that was
/// slow for its size, every step is looked at.
pub(crate) const MAX_UNEXAMINED_STEPS: u32 = 7;
/// Steps between two looks that take longer are not quick ones: some hundred times what they should.
pub(crate) const QUICK_STEPS_TIME: Duration = Duration::from_micros(100);
/// Garbage that a VM may keep between runs, in its heap, and as much again in host memory.
/// Collecting less at a time costs more than it frees.
pub(crate) const MAX_RETAINED_BYTES: usize = 4 * 1024 * 1024;
/// Globals a fresh environment has room for without growing.
pub(crate) const EXPECTED_GLOBALS: usize = 16;
/// Bytes of subject times bytes of pattern or separator that a search may cost without a check. It
/// takes less than a millisecond even if the library's search is quadratic.
pub(crate) const MAX_UNEXAMINED_WORK: usize = 1 << 20;
/// Character tests that one pattern item may make on the whole subject. The matcher cannot be
/// interrupted while it repeats a single item, and this many take it tens of milliseconds.
pub(crate) const MAX_PATTERN_WORK: usize = 1 << 26;
/// Length of a pattern, for the same reason: the matcher runs along literal text uninterrupted.
pub(crate) const MAX_PATTERN_BYTES: usize = 64 * 1024;

const _: () = assert!(MAX_RETAINED_BYTES < DEFAULT_MEMORY_BYTES);
const _: () = assert!(MAX_UNEXAMINED_WORK < MAX_PATTERN_WORK);
