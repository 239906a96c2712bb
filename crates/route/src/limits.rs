//! Every bound of this crate with its reason.

use std::time::Duration;

use nacre_object::limits::{MAX_IDENTIFIER_BYTES, MAX_OBJECT_NAME_BYTES};

/// Rules of one switch. The burst of the sRoute paper (section 5.1) left 100,000 rules behind.
pub const MAX_RULES: usize = 100_000;
/// Rules of one switch whose object is a pattern with `*` before its end. Patterns with the same
/// literal prefix are tried one after the other, so many of them are slow.
pub const MAX_PATTERN_RULES: usize = 1024;
/// Bytes of the object of a rule: a pool, a slash and the longest object name.
pub const MAX_OBJECT_MATCH_BYTES: usize = MAX_IDENTIFIER_BYTES + 1 + MAX_OBJECT_NAME_BYTES;
/// Places among which one rule scatters. Nobody keeps more copies of an object.
pub const MAX_SCATTER_TARGETS: usize = 16;
/// Destinations that one program declares: one for each target of a large cluster.
pub const MAX_PROGRAM_DESTINATIONS: usize = 256;
/// Rules that programs have inserted at one switch. A program that inserts one rule for each object
/// can cover as many objects as a switch has rules.
pub const MAX_INSERTED_RULES: usize = MAX_RULES;
/// Rules that a program may insert and delete while it decides about one IO. An object needs only a
/// few.
pub const MAX_RULE_CHANGES: usize = 16;
/// The budget of one decision of a route program. The IO waits for the decision, and the program
/// occupies a thread that serves other requests too.
#[cfg(feature = "programs")]
pub(crate) const ROUTE_BUDGET: nacre_program::Budget = nacre_program::Budget {
    time: Duration::from_millis(2),
    steps: 20_000,
    memory_bytes: 1024 * 1024,
    output_bytes: 0,
};
/// Pieces into which the rules may split one IO: enough for the longest request in blocks of 4 KiB,
/// with some to spare.
pub const MAX_PIECES: usize = 4096;
/// Bytes of a rule file: enough for several times the rules of a full switch with short names.
pub const MAX_FILE_BYTES: usize = 64 << 20;
/// Bytes of one line of a rule file: room for a header and a destination with the longest names,
/// all characters escaped.
pub const MAX_LINE_BYTES: usize = 16 * 1024;
/// IOs that a switch holds while a header is quiesced, or while they wait for an overlapping IO. A
/// client has some dozens of IOs in flight, so this is enough for a thousand clients.
pub const MAX_HELD_IOS: usize = 65_536;
/// IOs of one switch that are in flight.
pub const MAX_IN_FLIGHT_IOS: usize = 65_536;
/// How long an IO waits for the controller before it fails. A failed controller is replaced within
/// some seconds.
pub const MAX_CONTROLLER_WAIT: Duration = Duration::from_secs(30);
/// How often switches try to agree about one write before the write fails.
pub const MAX_AGREEMENT_ATTEMPTS: u32 = 16;
/// Switches that change together.
pub const MAX_SWITCHES: usize = 4096;
/// Switches and layers that one IO passes before the analysis reports a loop. A path without a loop
/// visits each switch and layer once at most; real paths visit about five.
pub const MAX_HOPS: usize = 64;
/// States of the automaton with which the analysis finds an object for each combination of rules.
/// Each state takes some hundred bytes.
pub const MAX_CHECK_STATES: usize = 1 << 20;
/// Findings of one kind that the analysis reports. A person reads the first few.
pub const MAX_FINDINGS_OF_A_KIND: usize = 100;
/// Blocks that one miss-ratio curve samples. 8,192 samples already have an error of half a per cent.
pub const MAX_SAMPLED_BLOCKS: usize = 1 << 20;

const _: () = assert!(MAX_PATTERN_RULES < MAX_RULES);
const _: () = assert!(MAX_OBJECT_MATCH_BYTES * 4 < MAX_LINE_BYTES);
