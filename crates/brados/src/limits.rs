//! Every bound on what a program may contain, with its reason.
//!
//! The bounds keep the compiler's time and memory small for any input, and keep the generated class
//! within the limits of Lua and its sandbox.

/// The most bytes of a program's source: about fifty times the source of the CORFU interface.
pub const MAX_SOURCE_BYTES: usize = 64 * 1024;
/// The most collections of a program, including `temp`s. Each may become a local variable of a Lua
/// function, and a function can have only 200.
pub const MAX_COLLECTIONS: usize = 96;
pub use nacre_calls::{MAX_COLUMNS, MAX_INTEGER};
/// Rules of a program.
pub const MAX_RULES: usize = 512;
/// The most collections of one join. Each becomes a loop inside the loop of the previous one.
pub const MAX_JOINED: usize = 6;
/// The deepest nesting of brackets, operators and blocks. It is bounded because the passes over
/// expressions are recursive.
pub const MAX_NESTING: usize = 48;
/// How many mistakes are reported at once. Later ones are often only consequences of the first, so
/// they are left out.
pub const MAX_DIAGNOSTICS: usize = 50;
/// The most mistakes, and the most warnings, that are collected. Each new one is compared with all
/// earlier ones.
pub const MAX_FOUND: usize = 16 * MAX_DIAGNOSTICS;
/// How many characters of a line are shown around a mistake.
pub const MAX_SHOWN_CHARACTERS: usize = 200;
/// The length of a name in bytes. Names occur in keys of the map, in replies, and in many lines of
/// the class.
pub const MAX_NAME_BYTES: usize = 128;
/// Of a long request, a method may get only the beginning, but at least this many bytes. So it can
/// decode numbers within these bytes without the whole request.
pub const REQUEST_HEAD_BYTES: usize = 64;
/// The most bytes of the generated class. The sandbox compiles no more
/// (`nacre_program::MAX_SOURCE_BYTES`).
pub const MAX_CLASS_BYTES: usize = 256 * 1024;
/// The most rules in the generated class. A rule counts once for each method that runs it, and
/// several times if the method runs variants of it ([`crate::plan`]). A rule takes about a hundred
/// bytes of Lua, so more rules would exceed [`MAX_CLASS_BYTES`].
pub const MAX_RULE_PLANS: usize = 4096;
/// The most rounds of a recursion at run time. So a program can follow paths of at most this
/// length. The bound also ends a recursion that makes new values for ever, even on a stock OSD,
/// which has no budgets.
pub const MAX_ROUNDS: usize = 10_000;
/// The most bytes of an object's stream that a layout may use. Longer streams are not possible in
/// nacre, nor in Ceph with its default settings.
pub const MAX_STREAM_BYTES: u32 = 128 * 1024 * 1024;
/// The least size of a slot in bytes: one byte for the slot's state and one for a value.
pub const MIN_SLOT_BYTES: u32 = 2;
/// The greatest size of a slot in bytes, which is also the greatest size of a value of the map. A
/// row that does not fit into its slot is stored in the map.
pub const MAX_SLOT_BYTES: u32 = 1024 * 1024;
/// The most former layouts of a program. The class contains code to read each of them.
pub const MAX_FORMER_LAYOUTS: usize = 8;
/// The most stripes of an object. A spread request is sent to all of them.
pub const MAX_STRIPES: u32 = 1024;
/// The most layouts that are listed for a program. Each table multiplies their number.
pub const MAX_LISTED_LAYOUTS: usize = 1024;

const _: () = assert!(MAX_SOURCE_BYTES < u32::MAX as usize, "spans are of 32 bits");
