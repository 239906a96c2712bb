//! `WaypointProgram`: one compiled version of a waypoint.

use std::sync::Arc;

use bytes::Bytes;
use mlua::{Lua, MultiValue, Table, Value};
use nacre_clock::Clock;
use nacre_object::{Error, FaultSite, ProgramName, Result};
use nacre_program::Digest;
use nacre_script::{Library, ProgramVersion, ProgramVm, Run, type_of};

use super::interface::{DECODE, ENCODE, LIMIT, PRICE, WAYPOINT_INTERFACE};
use super::{Limit, Mark, WaypointKind};
use crate::limits::{WAYPOINT_BUDGET, WAYPOINT_RUN_BYTES};
use crate::model::Io;

/// Waypoints find nothing besides the standard library.
struct NoLibrary;

impl Library for NoLibrary {
    fn install(_: &nacre_script::Host<'_>) -> mlua::Result<Self> {
        Ok(Self)
    }
}

thread_local! {
    static VM: ProgramVm<NoLibrary> = const { ProgramVm::new() };
}

/// What a waypoint says of an IO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// What the IO costs.
    pub cost: f64,
    /// Of IO that waits, the one with the least number goes first.
    pub priority: f64,
}

/// One compiled version of a waypoint.
#[derive(Debug)]
pub struct WaypointProgram {
    version: ProgramVersion,
    digest: Digest,
    kind: WaypointKind,
    limit: Option<Limit>,
}

impl WaypointProgram {
    /// Compiles a program, runs its top level once, and reads what it defines.
    ///
    /// # Errors
    /// `Fault` with the line that fails; `Invalid` if a definition is missing or wrong.
    pub fn compile(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let source = source.into();
        let digest = Digest::of(source.as_bytes());
        let version = ProgramVersion::new(name, version, source, clock, &WAYPOINT_BUDGET);
        let (kind, limit) = version.run(&VM, |run, _| definitions(run))?;
        Ok(Self { version, digest, kind, limit })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version.number()
    }

    /// What it does.
    pub fn kind(&self) -> WaypointKind {
        self.kind
    }

    /// How fast it lets IO go on, if it holds IO.
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// The mark of objects whose bytes it has encoded. `name` is the name of the program.
    pub fn mark(&self, name: &ProgramName) -> Mark {
        let (program, digest) = (name.clone(), self.digest.to_string());
        Mark { program, version: self.version(), digest }
    }

    /// Encodes at most [`WAYPOINT_RUN_BYTES`] bytes, and checks that decoding undoes it.
    ///
    /// # Errors
    /// `Fault` with the line where the program fails, or with that of `encode` if decoding does not
    /// undo it; `Exhausted` if the program exceeds its budget. Both name the program and its version.
    pub fn encode(&self, offset: u64, bytes: &[u8]) -> Result<Bytes> {
        let encoded = self.transformed(ENCODE, offset, bytes)?;
        let decoded = self.transformed(DECODE, offset, &encoded)?;
        match decoded == bytes {
            true => Ok(encoded),
            false => Err(self.wrong(ENCODE, {
                let at = decoded.iter().zip(bytes).position(|(a, b)| a != b).unwrap_or_default();
                format!("`{DECODE}` does not undo `{ENCODE}` at offset {}", offset + at as u64)
            })),
        }
    }

    /// Decodes at most [`WAYPOINT_RUN_BYTES`] bytes.
    ///
    /// # Errors
    /// As [`WaypointProgram::encode`].
    pub fn decode(&self, offset: u64, bytes: &[u8]) -> Result<Bytes> {
        self.transformed(DECODE, offset, bytes)
    }

    fn transformed(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<Bytes> {
        if bytes.len() > WAYPOINT_RUN_BYTES {
            let text = format!("a run of a waypoint gets {WAYPOINT_RUN_BYTES} bytes at most");
            return Err(Error::invalid(text));
        }
        let done = self.version.run(&VM, |run, _| {
            let function = run.required_function(name, WAYPOINT_INTERFACE.functions[0].what)?;
            let buffer = run.lua().create_buffer(bytes).map_err(|error| run.explain(&error))?;
            run.call_for::<MultiValue>(&function, (offset as f64, buffer.clone()))?;
            Ok(Bytes::from(buffer.to_vec()))
        });
        done.map_err(|error| self.blamed(error, name))
    }

    /// Asks what an IO of so many bytes costs.
    ///
    /// # Errors
    /// As [`WaypointProgram::encode`].
    pub fn price(&self, io: &Io, bytes: u64) -> Result<Price> {
        let priced = self.version.run(&VM, |run, _| {
            let function = run.required_function(PRICE, WAYPOINT_INTERFACE.functions[2].what)?;
            let io = io_to_lua(run.lua(), io, bytes).map_err(|error| run.explain(&error))?;
            let (cost, priority) = run.call_for::<(Value, Value)>(&function, io)?;
            let cost = number(&cost).filter(|cost| *cost >= 0.0).ok_or_else(|| {
                let text = format!("`{PRICE}` returned {} as the cost", shown(&cost));
                Error::invalid(text).hint("return a number from 0 on")
            })?;
            let priority = match priority {
                Value::Nil => Some(0.0),
                priority => number(&priority),
            };
            let priority = priority.ok_or_else(|| {
                Error::invalid(format!("`{PRICE}` returned a priority that is no number"))
                    .hint("return a number, or no priority")
            })?;
            Ok(Price { cost, priority })
        });
        priced.map_err(|error| self.blamed(error, PRICE))
    }

    /// The error of a function whose result is wrong.
    pub(super) fn wrong(&self, function: &str, text: String) -> Error {
        self.version.blame(Error::invalid(text), function)
    }

    /// Adds the program, its version and a line to an error.
    fn blamed(&self, error: Error, function: &str) -> Error {
        let error = self.version.blame(error, function);
        if error.fault().is_some_and(|site| site.line.is_some()) {
            return error;
        }
        // The VM knows no line if the budget ended the run, so the line of the function is used.
        let known = error.fault().cloned().unwrap_or_default();
        let traceback = known.traceback;
        error.with_fault(FaultSite { traceback, ..self.version.definition(function) })
    }
}

/// A finite number.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        other => format!("a {}", type_of(other)),
    }
}

/// Reads what a program does, and its limit.
fn definitions(run: &Run<'_>) -> Result<(WaypointKind, Option<Limit>)> {
    let has = |name: &str| Ok::<_, Error>(run.function(name)?.is_some());
    let missing = |name: &str, other: &str| {
        Err(Error::invalid(format!("the program defines `{other}` but not `{name}`"))
            .hint(format!("define both, or neither: see nacre program kinds {}", "waypoint")))
    };
    let limit = read_limit(run)?;
    match (has(ENCODE)?, has(DECODE)?) {
        (true, false) => return missing(DECODE, ENCODE),
        (false, true) => return missing(ENCODE, DECODE),
        _ => {}
    }
    match (has(PRICE)?, limit.is_some()) {
        (true, false) => return missing(LIMIT, PRICE),
        (false, true) => return missing(PRICE, LIMIT),
        _ => {}
    }
    let kind = WaypointKind { encodes: has(ENCODE)?, holds: limit.is_some() };
    match kind == WaypointKind::default() {
        true => Err(Error::invalid("the program defines nothing that a waypoint does").hint(
            "define `encode` and `decode` to re-encode bytes, or `price` and `limit` to hold IO",
        )),
        false => Ok((kind, limit)),
    }
}

fn read_limit(run: &Run<'_>) -> Result<Option<Limit>> {
    let table = match run.global(LIMIT)? {
        Value::Nil => return Ok(None),
        Value::Table(table) => table,
        other => {
            return Err(Error::invalid(format!("`{LIMIT}` is a {}", type_of(&other)))
                .hint(WAYPOINT_INTERFACE.functions[3].what));
        }
    };
    let field = |name: &str| {
        let value = table.raw_get::<Value>(name).map_err(|error| run.explain(&error))?;
        number(&value).ok_or_else(|| {
            Error::invalid(format!("`{LIMIT}.{name}` is not a number"))
                .hint(WAYPOINT_INTERFACE.functions[3].what)
        })
    };
    let longest = field("queue")?;
    let limit = Limit {
        rate: field("rate")?,
        burst: field("burst")?,
        // A number that is too large, negative or no whole one is refused by the check.
        longest: if longest.fract() == 0.0 { longest as usize } else { 0 },
    };
    limit.check()?;
    Ok(Some(limit))
}

/// Creates the argument of `price`.
fn io_to_lua(lua: &Lua, io: &Io, bytes: u64) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 7)?;
    table.raw_set("source", io.source.as_str())?;
    table.raw_set("tenant", io.tenant.as_str())?;
    table.raw_set("operation", io.operation.word())?;
    table.raw_set("pool", io.object.pool.as_str())?;
    table.raw_set("name", io.object.name.as_str())?;
    if let Some(span) = io.span.filter(|span| *span != crate::model::Span::WHOLE) {
        table.raw_set("offset", span.start() as f64)?;
    }
    table.raw_set("bytes", bytes as f64)?;
    table.set_readonly(true);
    Ok(table)
}
