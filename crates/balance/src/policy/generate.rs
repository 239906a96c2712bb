//! Builds the script that runs a policy: the policy's source, followed by a generated function for
//! each hook that the source sets to a string.
//!
//! The script returns a table of functions, see [`super::decide`] and [`super::measure`]. Names
//! that begin with `nacre_` belong to this module.

use nacre_object::Result;

use super::hook_name::HookName;
use super::hooks::{HookForm, Hooks};
use super::library::REFUSE;
use super::mapped_script::{MappedScript, MappedSource, Piece};
use crate::UnitRates;
use crate::limits::{COUNTER_BYTES, UNITS_AT_ONCE};

/// The longest `metaload`, the hook that computes a unit's load, for which the generated loop over
/// units is unrolled. The VM checks its budget once for each iteration, and unrolling saves most of
/// these checks. A longer `metaload` takes so long that these checks hardly matter.
const MAX_UNROLLED_BYTES: usize = 1024;

/// Builds a policy's script.
///
/// # Errors
/// `Fault` with the line of the hook that does not compile.
pub(crate) fn script_of(
    name: &str,
    version: u64,
    source: &str,
    hooks: &Hooks,
) -> Result<MappedScript> {
    let parts = [
        measure_of(&hooks.metaload, source),
        mdsload_of(&hooks.mdsload),
        howmuch_of(&hooks.howmuch),
        decide_of(&hooks.when, &hooks.where_, source),
    ];
    let mut script = MappedSource::default();
    script.code(
        &format!(
            "local nacre_read, nacre_write, nacre_type = buffer.readf64, buffer.writef64, type\n\
             local nacre_refuse, nacre_huge = {REFUSE}, math.huge\n\
             local function nacre_policy(...)"
        ),
        None,
    );
    script.piece(&Piece { text: &without_preamble(source), line: Some(1), is_verbatim: true });
    script.code("end\nnacre_policy()", None);
    for part in parts {
        // Compile each hook alone first, so that a syntax error names its hook.
        part.clone().compile(name, version)?;
        script.append(&part);
    }
    script.code(
        "return {\n\
         measure = nacre_measure, check = nacre_check, mdsload = nacre_mdsload, howmuch = nacre_howmuch,\n\
         when = nacre_when, where = nacre_where, placement = placement }",
        None,
    );
    script.compile(name, version)
}

/// The source of a policy, ready to be put into a function: without a byte order mark, and with a
/// shebang line turned into a comment.
pub(super) fn without_preamble(source: &str) -> String {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    match source.strip_prefix("#!") {
        Some(rest) => format!("--{rest}"),
        None => source.to_owned(),
    }
}

/// Builds two loops over units: `nacre_measure` computes the loads, and `nacre_check` finds the
/// unit that is the cause of an error. `nacre_check` runs only if `nacre_measure` failed or
/// returned an unusable load.
fn measure_of(metaload: &HookForm, source: &str) -> MappedSource {
    let piece = metaload.piece(HookName::Metaload);
    let line = piece.map_or_else(|| HookName::Metaload.line_in(source), |piece| piece.line);
    let mut script = MappedSource::default();
    // The VM checks its budget at each step of a loop, which takes longer than most expressions.
    let is_short = piece.is_some_and(|piece| piece.text.len() <= MAX_UNROLLED_BYTES);
    let group = if is_short { UNITS_AT_ONCE } else { 1 };
    let head = format!(
        "local function nacre_measure(nacre_counters, nacre_loads, nacre_count)\n\
         for nacre_at = 0, nacre_count - 1, {group} do\n\
         local nacre_from, nacre_to = nacre_at * {COUNTER_BYTES}, nacre_at * 8"
    );
    script.code(&head, line);
    for unit in 0..group {
        let write = format!(
            "do {} nacre_write(nacre_loads, nacre_to + {}, (",
            reads_of(piece, unit),
            unit * 8
        );
        script.code(&write, line);
        load_of(&mut script, piece, line);
        script.code(")) end", line);
    }
    let head = format!(
        "end\nend\n\
         local function nacre_check(nacre_counters, nacre_first, nacre_count)\n\
         for nacre_at = 0, nacre_count - 1 do local nacre_from = nacre_at * {COUNTER_BYTES} {}\n\
         local nacre_load = (",
        reads_of(piece, 0)
    );
    script.code(&head, line);
    load_of(&mut script, piece, line);
    script.code(
        ")\n\
         if nacre_type(nacre_load) ~= 'number' or not (nacre_load >= 0 and nacre_load < nacre_huge) then\n\
         nacre_refuse(nacre_first + nacre_at, nacre_load) end\n\
         end\nend",
        line,
    );
    script
}

/// Code that reads the counters of a unit. If `metaload` is a string, the code reads only the
/// counters that the string names, into local variables. Otherwise it sets all counters as globals.
fn reads_of(piece: Option<Piece<'_>>, unit: usize) -> String {
    let read = |(at, name): (usize, &&str)| {
        let offset = unit * COUNTER_BYTES + at * size_of::<f64>();
        let read = format!("{name} = nacre_read(nacre_counters, nacre_from + {offset}) ");
        match &piece {
            Some(piece) => piece.text.contains(name).then(|| format!("local {read}")),
            None => Some(read),
        }
    };
    UnitRates::NAMES.iter().enumerate().filter_map(read).collect()
}

fn load_of(script: &mut MappedSource, piece: Option<Piece<'_>>, line: Option<u32>) {
    match &piece {
        Some(piece) => script.piece(piece),
        None => script.code("metaload()", line),
    }
}

pub(super) fn mdsload_of(mdsload: &HookForm) -> MappedSource {
    let mut script = MappedSource::default();
    match mdsload.piece(HookName::Mdsload) {
        Some(piece) => {
            script.code("local function nacre_mdsload(i) return (", piece.line);
            script.piece(&piece);
            script.code(") end", piece.line);
        }
        None => script.code("local nacre_mdsload = mdsload", None),
    }
    script
}

fn howmuch_of(howmuch: &HookForm) -> MappedSource {
    let mut script = MappedSource::default();
    match howmuch.piece(HookName::Howmuch) {
        Some(piece) => {
            script.code("local nacre_howmuch = (", piece.line);
            script.piece(&piece);
            script.code(")", piece.line);
        }
        None => script.code("local nacre_howmuch = howmuch", None),
    }
    script
}

/// Builds `nacre_when`, which says whether load moves, and `nacre_where`, which fills the targets.
///
/// If both hooks are strings and `when` ends with an `if … then` that it does not close, `where`
/// continues inside that `if`. Then a single function runs both hooks, so that `where` sees the
/// local variables of `when`.
pub(super) fn decide_of(when: &HookForm, where_: &HookForm, source: &str) -> MappedSource {
    let mut script = MappedSource::default();
    let joined = when.piece(HookName::When).filter(is_open).zip(where_.piece(HookName::Where));
    if let Some((when, where_)) = joined {
        script.code(
            "local nacre_where\nlocal nacre_is_due = false\nlocal function nacre_decide()",
            when.line,
        );
        script.piece(&when);
        script.code("nacre_is_due = true", when.line);
        script.piece(&where_);
        script.code("end\nend", where_.line);
        script.code(
            "local function nacre_when() nacre_is_due = false nacre_decide() return nacre_is_due end",
            when.line,
        );
        return script;
    }
    match when.piece(HookName::When) {
        Some(piece) => when_of(&mut script, &piece),
        None => script.code("local nacre_when = when", HookName::When.line_in(source)),
    }
    match where_.piece(HookName::Where) {
        Some(piece) => {
            script.code("local function nacre_where()", piece.line);
            script.piece(&piece);
            script.code("end", piece.line);
        }
        None => script.code("local nacre_where = where", HookName::Where.line_in(source)),
    }
    script
}

/// Writes the function for a `when` that is a string. The string is one of three things: an
/// `if … then` without its `end`, an expression, or statements. Statements return a boolean, or set
/// the variable `when` to it.
fn when_of(script: &mut MappedSource, piece: &Piece<'_>) {
    if is_open(piece) {
        script.code("local function nacre_when()", piece.line);
        script.piece(piece);
        script.code("return true\nend\nend", piece.line);
        return;
    }
    let mut expression = MappedSource::default();
    expression.code("local function nacre_when() return (", piece.line);
    expression.piece(piece);
    expression.code(") end", piece.line);
    if expression.is_sound() {
        script.append(&expression);
        return;
    }
    script.code(
        "local function nacre_when() local when local function nacre_statements()",
        piece.line,
    );
    script.piece(piece);
    script.code(
        "end local nacre_result = nacre_statements()\n\
         if nacre_result == nil then nacre_result = when end\nreturn nacre_result end",
        piece.line,
    );
}

/// Whether a string ends with an `if … then` that is still open.
fn is_open(piece: &Piece<'_>) -> bool {
    let compiles = |end: &str| {
        let mut script = MappedSource::default();
        script.code("local function nacre_when()", None);
        script.piece(piece);
        script.code(end, None);
        script.is_sound()
    };
    // A string that compiles neither with one `end` nor with two has another mistake. It counts as
    // open if its last word is `then`.
    compiles("end\nend") || !compiles("end") && piece.text.trim_end().ends_with("then")
}
