//! The languages of class programs: Luau, and Brados, which nacre compiles to Luau.
//!
//! A program is always stored and sent as source, and each node compiles it. So a program has the
//! same digest on all nodes, even if their compilers differ.

use std::borrow::Cow;
use std::collections::BTreeSet;

use nacre_brados::ir::Program;
use nacre_brados::{CompileErrors, LineMap, is_brados};
use nacre_object::{Error, FaultSite};
use nacre_script::{CompileError, Script};

use crate::check::CheckError;

/// A program in Lua, and where it comes from.
pub(crate) struct Translated<'a> {
    pub lua: Cow<'a, str>,
    /// Maps lines of the Lua to the program's lines. `None` for a program in Lua.
    pub lines: Option<LineMap>,
    /// The resolved program, if it is in Brados.
    pub meaning: Option<Program>,
    /// The methods that may send what the runtime delivers.
    pub senders: BTreeSet<String>,
    /// The methods that take some microseconds, however much data their object has.
    pub brief: BTreeSet<String>,
}

impl Translated<'_> {
    /// Compiles the class into a script. A class that the Brados compiler made keeps no state
    /// between calls, so a VM runs its chunk only once instead of for each call.
    ///
    /// # Errors
    /// The first mistake in the Lua.
    pub fn script(&self, name: &str, version: u64) -> Result<Script, CompileError> {
        let script = Script::compile(name, version, self.lua.as_bytes())?;
        Ok(if self.lines.is_some() { script.kept() } else { script })
    }
}

/// Returns the Lua source of a program that is written in Luau or in Brados.
///
/// # Errors
/// The first mistake of a Brados program. Mistakes of a Luau program are found later, when it is
/// compiled.
pub(crate) fn translate(source: &str) -> Result<Translated<'_>, CheckError> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    if !is_brados(source) {
        return Ok(Translated {
            lua: Cow::Borrowed(source),
            lines: None,
            meaning: None,
            senders: BTreeSet::new(),
            brief: BTreeSet::new(),
        });
    }
    let compiled = nacre_brados::compile(source).map_err(|errors| check_error(&errors, source))?;
    let senders = compiled.senders().map(str::to_owned).collect();
    let brief = compiled.brief().map(str::to_owned).collect();
    let class = compiled.class;
    let meaning = Some(compiled.analysis.program);
    let (lua, lines) = (Cow::Owned(class.lua), Some(class.lines));
    Ok(Translated { lua, lines, meaning, senders, brief })
}

fn check_error(errors: &CompileErrors, source: &str) -> CheckError {
    let Some(first) = errors.first() else {
        let message = errors.to_string();
        return CheckError { line: None, column: None, message, excerpt: String::new() };
    };
    let place = first.place(source);
    CheckError {
        line: Some(place.line),
        column: Some(place.column),
        message: first.summary(),
        excerpt: errors.render("program", source),
    }
}

/// Replaces the lines in an error of a class by lines of the program.
pub(crate) fn at_program_lines(error: Error, lines: &LineMap) -> Error {
    let Some(site) = error.fault() else { return error };
    let (frames, numbers): (Vec<_>, Vec<_>) = site
        .traceback
        .lines()
        .filter_map(|frame| program_frame(frame, &site.program, lines))
        .unzip();
    let own = site.line.and_then(|line| lines.line(line));
    let line = own.or_else(|| numbers.first().copied());
    let site = FaultSite { line, traceback: frames.join("\n"), ..site.clone() };
    error.with_fault(site)
}

/// Translates a frame of a traceback (`NAME:LINE…`) to the line of the Brados source. Returns
/// `None` if the frame's line of the class comes from no line of the source.
fn program_frame(frame: &str, name: &str, lines: &LineMap) -> Option<(String, u32)> {
    let rest = frame.strip_prefix(name)?.strip_prefix(':')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let line = lines.line(rest[..digits].parse().ok()?)?;
    Some((format!("{name}:{line}"), line))
}
