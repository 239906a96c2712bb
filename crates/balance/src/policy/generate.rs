//! The script of a policy: its source, and functions made of the hooks that are strings.
//!
//! The script returns a table of functions, see [`super::decide`] and [`super::measure`]. Names that begin with
//! `nacre_` are ours.

use nacre_object::Result;

use super::hook_name::HookName;
use super::hooks::{HookForm, Hooks};
use super::library::REFUSE;
use super::mapped_script::{MappedScript, MappedSource, Piece};
use crate::UnitRates;
use crate::limits::COUNTER_BYTES;

/// Puts a policy's script together.
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
        // By itself, so that what is wrong is told of the hook in which it is wrong.
        part.clone().compile(name, version)?;
        script.append(&part);
    }
    script.code(
        "return {\n\
         measure = nacre_measure, mdsload = nacre_mdsload, howmuch = nacre_howmuch,\n\
         when = nacre_when, where = nacre_where, placement = placement }",
        None,
    );
    script.compile(name, version)
}

/// A source that may stand within a function: without a byte order mark, its first line a comment if it is for a shell.
fn without_preamble(source: &str) -> String {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    match source.strip_prefix("#!") {
        Some(rest) => format!("--{rest}"),
        None => source.to_owned(),
    }
}

/// The line of a hook that is a function.
fn line_of(hook: HookName, source: &str) -> Option<u32> {
    hook.line_in(source)
}

/// A loop over all units. The counters of a string are locals of the loop: a global costs several times as much.
fn measure_of(metaload: &HookForm, source: &str) -> MappedSource {
    let mut script = MappedSource::default();
    let piece = metaload.piece(HookName::Metaload);
    let line = piece.map_or_else(|| line_of(HookName::Metaload, source), |piece| piece.line);
    let is_used = |name: &str| piece.is_none_or(|piece| piece.text.contains(name));
    let read = |(at, name): (usize, &&str)| {
        let offset = at * size_of::<f64>();
        let read =
            format!("{name} = nacre_read(nacre_counters, nacre_at * {COUNTER_BYTES} + {offset})");
        let scope = if piece.is_some() { "local " } else { "" };
        is_used(name).then(|| format!("{scope}{read} "))
    };
    let reads: String = UnitRates::NAMES.iter().enumerate().filter_map(read).collect();
    let head = format!(
        "local function nacre_measure(nacre_counters, nacre_loads, nacre_count)\n\
         for nacre_at = 0, nacre_count - 1 do {reads}\n\
         local nacre_load = ("
    );
    script.code(&head, line);
    match &piece {
        Some(piece) => script.piece(piece),
        None => script.code("metaload()", line),
    }
    script.code(
        ")\n\
         if nacre_type(nacre_load) ~= 'number' or not (nacre_load >= 0 and nacre_load < nacre_huge) then\n\
         nacre_refuse(nacre_at, nacre_load) end\n\
         nacre_write(nacre_loads, nacre_at * 8, nacre_load)\n\
         end\nend",
        line,
    );
    script
}

fn mdsload_of(mdsload: &HookForm) -> MappedSource {
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

/// `nacre_when` says whether load moves; `nacre_where` fills the targets. Where both are strings, and `when` ends with
/// an open `if … then`, one function does both, so that the locals of `when` are visible in `where`.
fn decide_of(when: &HookForm, where_: &HookForm, source: &str) -> MappedSource {
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
        None => script.code("local nacre_when = when", line_of(HookName::When, source)),
    }
    match where_.piece(HookName::Where) {
        Some(piece) => {
            script.code("local function nacre_where()", piece.line);
            script.piece(&piece);
            script.code("end", piece.line);
        }
        None => script.code("local nacre_where = where", line_of(HookName::Where, source)),
    }
    script
}

/// A `when` that is a string: an open `if … then`, an expression, or statements. Those return a truth value, or set the
/// variable `when`.
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
    // With a mistake in it, the string is what its last word says.
    compiles("end\nend") || !compiles("end") && piece.text.trim_end().ends_with("then")
}
