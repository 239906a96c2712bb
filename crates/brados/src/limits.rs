//! Every bound on what a program may contain, with its reason.
//!
//! They keep the compiler's time and memory small whatever it is given, and the generated class
//! within what Lua and its sandbox take.

/// Source of one program: some fifty times the CORFU interface.
pub const MAX_SOURCE_BYTES: usize = 64 * 1024;
/// Collections of a program, `temp`s included: each may become a local of a Lua function, which has
/// at most 200.
pub const MAX_COLLECTIONS: usize = 96;
pub use nacre_calls::{MAX_COLUMNS, MAX_INTEGER};
/// Rules of a program.
pub const MAX_RULES: usize = 512;
/// Collections of one join: each is a loop within the loop of the one before.
pub const MAX_JOINED: usize = 6;
/// Brackets, operators and blocks within each other: the passes over expressions are recursive.
pub const MAX_NESTING: usize = 48;
/// Mistakes told at once: past these the first ones are worth more than the next.
pub const MAX_DIAGNOSTICS: usize = 50;
/// Mistakes, and as many doubts, that are looked at to tell those: each is compared with those before it.
pub const MAX_FOUND: usize = 16 * MAX_DIAGNOSTICS;
/// Characters of a line that are shown with a mistake, around it.
pub const MAX_SHOWN_CHARACTERS: usize = 200;
/// Bytes of a name: it is in keys of the map, in replies and in each line of the class that is about it.
pub const MAX_NAME_BYTES: usize = 128;
/// Bytes of a request that a method gets at least, where there are so many, when it is given the head alone:
/// numbers at fixed places lie within them.
pub const REQUEST_HEAD_BYTES: usize = 64;
/// Text of the generated class: what the sandbox compiles (`nacre_program::MAX_SOURCE_BYTES`).
pub const MAX_CLASS_BYTES: usize = 256 * 1024;
/// Rules that a class carries out, all methods and variants together: at some hundred bytes each they
/// would be more than [`MAX_CLASS_BYTES`].
pub const MAX_RULE_PLANS: usize = 4096;
/// Rounds of a recursion at run time: as long as the longest path that can be followed. A program
/// whose recursion makes new values for ever ends here on a stock OSD, which has no budgets.
pub const MAX_ROUNDS: usize = 10_000;
/// Bytes of the stream that a layout uses: what an object may have, in nacre and by default in Ceph.
pub const MAX_STREAM_BYTES: u32 = 128 * 1024 * 1024;
/// Bytes of a slot: one says what is in it, so there is room for one more.
pub const MIN_SLOT_BYTES: u32 = 2;
/// As much as a value of the map, where a row lies that does not fit.
pub const MAX_SLOT_BYTES: u32 = 1024 * 1024;
/// Former layouts of a program: each adds to its class what reads it.
pub const MAX_FORMER_LAYOUTS: usize = 8;
/// Objects that one is divided among: a request that each must carry out is sent to all of them.
pub const MAX_STRIPES: u32 = 1024;
/// Layouts that are listed of a program: each table multiplies them.
pub const MAX_LISTED_LAYOUTS: usize = 1024;

const _: () = assert!(MAX_SOURCE_BYTES < u32::MAX as usize, "spans are of 32 bits");
