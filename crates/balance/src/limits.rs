//! Every bound of this crate with its reason.

use std::time::Duration;

use nacre_program::{Budget, DEFAULT_MEMORY_BYTES, DEFAULT_OUTPUT_BYTES, DEFAULT_STEPS};

/// The most ranks in one tick, because a policy may compare every rank with every other. The
/// largest Ceph clusters have some dozens.
pub const MAX_RANKS: usize = 1024;
/// The most units of one rank. A policy that reads single units needs memory for each.
pub const MAX_UNITS: usize = 262_144;
/// The state that a policy keeps between ticks, as JSON. It is part of each stored decision.
pub const MAX_STATE_BYTES: usize = 4096;
/// How deep tables of the state are nested.
pub const MAX_STATE_DEPTH: usize = 8;
/// The most entries of `howmuch`. Each selector sorts the units once for each target.
pub const MAX_SELECTORS: usize = 16;
/// The most lines that one decision may log. Further lines are dropped.
pub const MAX_LOG_LINES: usize = 64;
/// The most characters of a logged line. The rest is cut off.
pub const MAX_LOG_CHARACTERS: usize = 256;
/// The half-life of a counter of CephFS (`mds_decay_halflife`).
pub const DEFAULT_HALF_LIFE: Duration = Duration::from_secs(5);

/// The budget of one decision. A rank decides only once in a tick of some seconds, and looks at
/// every unit. So a decision gets more time than a method of a class, and still ends well within a
/// tick.
pub const DECISION_BUDGET: Budget = Budget {
    time: Duration::from_secs(1),
    steps: DEFAULT_STEPS,
    memory_bytes: 4 * DEFAULT_MEMORY_BYTES,
    output_bytes: DEFAULT_OUTPUT_BYTES,
};

/// The budget of a policy's check. The check runs with a stopped clock, so only the number of steps
/// limits it. A slow machine therefore accepts the same policies as a fast one.
pub(crate) const CHECK_BUDGET: Budget = Budget { steps: 5_000_000, ..DECISION_BUDGET };

/// The bytes of a unit's counters in the memory of a run.
pub(crate) const COUNTER_BYTES: usize = 5 * size_of::<f64>();

/// Units that one step of the loop over them measures.
pub(crate) const UNITS_AT_ONCE: usize = 8;
/// How many units are measured at a time. Their counters are copied into the VM together. The
/// counters and loads of this many units fit into a CPU's cache.
pub(crate) const BLOCK_UNITS: usize = 512;

/// The memory of a run that one unit takes if the policy reads it, with a reserve.
const UNIT_BYTES: usize = 400;

const _: () = assert!(BLOCK_UNITS.is_multiple_of(UNITS_AT_ONCE));
const _: () = assert!(MAX_UNITS * UNIT_BYTES < DECISION_BUDGET.memory_bytes);
const _: () = assert!(CHECK_BUDGET.steps < DECISION_BUDGET.steps);
