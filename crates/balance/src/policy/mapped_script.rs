//! `MappedScript`: a compiled policy, whose script consists of the policy's source, its string
//! hooks, and generated code. Errors name lines of the policy's source, not lines of the script.

use nacre_object::{Error, FaultSite, Result};
use nacre_program::Interface;
use nacre_registry::SourceError;
use nacre_script::Script;

use crate::hook::BALANCER_INTERFACE;

/// A script while it is being built. For each line of the script it keeps the number of the source
/// line from which the script's line was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct MappedSource {
    text: String,
    lines: Vec<Option<u32>>,
}

impl MappedSource {
    /// Adds generated code. An error in it is reported at `line` of the policy's source.
    pub fn code(&mut self, code: &str, line: Option<u32>) {
        for text in code.lines() {
            self.text.push_str(text);
            self.text.push('\n');
            self.lines.push(line);
        }
    }

    /// Adds a piece of the policy's source. Its first line is the line `first`.
    pub fn piece(&mut self, piece: &Piece<'_>) {
        // If the piece ends with a line break, the last part is empty. It adds an empty line to the
        // script.
        for (at, text) in piece.text.split('\n').enumerate() {
            self.text.push_str(text);
            self.text.push('\n');
            self.lines.push(match piece.is_verbatim {
                true => piece.line.map(|first| first + at as u32),
                false => piece.line,
            });
        }
    }

    /// Adds another source.
    pub fn append(&mut self, other: &MappedSource) {
        self.text.push_str(&other.text);
        self.lines.extend(&other.lines);
    }

    /// The source.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compiles it.
    ///
    /// # Errors
    /// `Fault` with the line of the policy's source.
    pub fn compile(self, name: &str, version: u64) -> Result<MappedScript> {
        let script = Script::compile(name, version, self.text.as_bytes()).map_err(|error| {
            let at = (error.line as usize).saturating_sub(1);
            let line = self.lines.get(at).copied().flatten();
            let site = FaultSite {
                program: name.to_owned(),
                version,
                line: line.or_else(|| self.lines.iter().rev().find_map(|line| *line)),
                traceback: String::new(),
            };
            Error::fault_at(site, error.message)
        })?;
        Ok(MappedScript { script, lines: self.lines })
    }

    /// Whether it compiles.
    pub fn is_sound(&self) -> bool {
        Script::compile("piece", 0, self.text.as_bytes()).is_ok()
    }
}

/// Strips the claim that a name "is not available" from an error of the VM, and returns the rest of
/// the message.
///
/// The claim is wrong for the globals that every policy has. The VM makes it when such a global
/// holds nil where the policy reads it, for example `MDSs[4]` on three ranks.
fn without_known_name(message: &str) -> Option<&str> {
    let (name, rest) = message.strip_prefix('`')?.split_once("` is not available in programs: ")?;
    let global = name.split_once('.').map_or(name, |(global, _)| global);
    BALANCER_INTERFACE.environment.iter().any(|item| item.name() == global).then_some(rest)
}

/// A part of a policy's source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// The part.
    pub text: &'a str,
    /// The line of the policy's source on which it begins; `None` for the original policy's.
    pub line: Option<u32>,
    /// Whether this piece has the same lines as in the source. If not, a fault in any of its lines
    /// is reported at its first line.
    pub is_verbatim: bool,
}

/// A compiled script with the lines of the policy's source.
#[derive(Debug)]
pub(crate) struct MappedScript {
    script: Script,
    lines: Vec<Option<u32>>,
}

impl MappedScript {
    /// Compiles a source as it is, without generated code.
    pub fn plain(name: &str, version: u64, source: &str) -> Result<Self> {
        let text = Piece { text: source, line: Some(1), is_verbatim: true };
        let mut mapped = MappedSource::default();
        mapped.piece(&text);
        mapped.compile(name, version)
    }

    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The error of a run, with the lines of the policy's source.
    pub fn mapped(&self, error: Error) -> Error {
        let Some(site) = error.fault() else { return error };
        let line = site.line.and_then(|line| self.source_line(line));
        let calls = site.traceback.lines().filter_map(|call| self.mapped_call(call));
        let traceback = calls.collect::<Vec<_>>().join("\n");
        let site = FaultSite { line, traceback, ..site.clone() };
        let Some(message) = without_known_name(error.message()) else {
            return error.with_fault(site);
        };
        Error::fault_at(site, message)
            .hint("the last rank has no next: `MDSs[whoami + 1]` is nil there")
    }

    fn source_line(&self, line: u32) -> Option<u32> {
        self.lines.get((line as usize).checked_sub(1)?).copied().flatten()
    }

    /// Maps a line `NAME:LINE…` of a traceback; `None` if the line is in generated code.
    fn mapped_call(&self, call: &str) -> Option<String> {
        let Some(rest) = call.strip_prefix(self.script.name()).and_then(|it| it.strip_prefix(':'))
        else {
            return Some(call.to_owned());
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let line = self.source_line(rest[..digits].parse().ok()?)?;
        Some(format!("{}:{line}{}", self.script.name(), &rest[digits..]))
    }

    /// The names that the policy's source reads, does not define, and does not find.
    pub fn suspicions(&self, interface: &Interface, source: &str) -> Vec<SourceError> {
        let own = |name: &&nacre_script::FreeName| {
            let line = self.source_line(name.line)?;
            let text = source.lines().nth(line as usize - 1)?;
            let at = name.column as usize - 1;
            let stands_there = text.chars().skip(at).collect::<String>().starts_with(&name.global);
            Some(SourceError {
                line: Some(line),
                column: stands_there.then_some(name.column),
                message: format!(
                    "`{}` is not available in balancer policies, and not defined here",
                    name.path()
                ),
            })
        };
        self.script.names_missing_in(interface).iter().filter_map(own).collect()
    }
}
