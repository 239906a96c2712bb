//! `RouteProgram`: one compiled version of a route program.

use std::sync::Arc;

use mlua::{Function, Lua, Table, Value};
use nacre_clock::Clock;
use nacre_object::{EntityName, Error, FaultSite, Result, TenantName};
use nacre_script::{ProgramVersion, ProgramVm, Run, Script, type_of};

use super::changes::{RouteLibrary, undeclared};
use super::interface::{DESTINATIONS, FUNCTION, NOT_OFFERED, ROUTE_INTERFACE};
use crate::endpoint::{NAMED_OBJECTS, ROUTED_POOL};
use crate::limits::ROUTE_BUDGET;
use crate::model::{
    Destination, Header, Io, ObjectMatch, Operation, Operations, SourceMatch, Span, declare, text,
};
use crate::switch::RuleChange;

thread_local! {
    static VM: ProgramVm<RouteLibrary> = const { ProgramVm::new() };
}

/// One compiled version of a route program.
#[derive(Debug)]
pub struct RouteProgram {
    version: ProgramVersion,
    destinations: Vec<Destination>,
}

/// The decision of a program about an IO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Where the IO goes.
    pub destination: Destination,
    /// The rules that the program inserts and deletes.
    pub changes: Vec<RuleChange>,
}

impl RouteProgram {
    /// Compiles a program, runs its top level once, and reads the destinations that it declares.
    ///
    /// # Errors
    /// `Fault` with the line that fails; `Invalid` if a required definition is missing;
    /// `Unsupported` for a destination or function that nodes do not offer.
    pub fn compile(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let version = ProgramVersion::new(name, version, source, clock, &ROUTE_BUDGET);
        let destinations = version.start(&VM, |run, _| {
            check_offered(run.script())?;
            run.load()?;
            function(run)?;
            read_destinations(run)
        })?;
        Ok(Self { version, destinations })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version.number()
    }

    /// The destinations that it declares.
    pub fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// Asks the program where an IO goes. `rule` is the header of the rule that names the program.
    ///
    /// # Errors
    /// `Fault` with the line where the program fails, or with the line of `route` if its result is
    /// invalid; `Exhausted` if the program exceeds its budget. Both name the program and its
    /// version.
    pub fn decide(&self, rule: &Header, io: &Io) -> Result<Decision> {
        let decided = self.version.run(&VM, |run, library| {
            let route = function(run)?;
            let argument = io_to_lua(run.lua(), rule, io).map_err(|error| run.explain(&error))?;
            library.begin(rule, io, &self.destinations);
            let destination = self.destination(run, &route, argument);
            let changes = library.finish();
            Ok(Decision { destination: destination?, changes })
        });
        decided.map_err(|error| self.blamed(error))
    }

    fn destination(&self, run: &Run<'_>, route: &Function, io: Table) -> Result<Destination> {
        let returned = run.call_for::<Value>(route, io)?;
        let Value::String(returned) = &returned else {
            let text = format!("`{FUNCTION}` returned a {}", type_of(&returned));
            return Err(Error::invalid(text).hint("return one of `destinations`"));
        };
        let text = returned.to_string_lossy();
        let destination = Destination::from_line(&text)?;
        match self.destinations.contains(&destination) {
            true => Ok(destination),
            false => Err(undeclared(&text)),
        }
    }

    /// Adds the program, its version and a line to an error.
    fn blamed(&self, error: Error) -> Error {
        let error = self.version.blame(error, FUNCTION);
        if error.fault().is_some_and(|site| site.line.is_some()) {
            return error;
        }
        // The VM knows no line if the budget ended the run, so the line of the function is used.
        let known = error.fault().cloned().unwrap_or_default();
        let traceback = known.traceback;
        error.with_fault(FaultSite { traceback, ..self.version.definition(FUNCTION) })
    }

    /// Tests the program with made-up IO: small and large ranges, at the start of an object and far
    /// from it.
    pub(super) fn rehearse(&self) -> Result<()> {
        let rule = Header {
            source: SourceMatch::Any,
            operations: Operations::of([Operation::Write]).unwrap_or(Operations::ALL),
            object: ObjectMatch::all(),
            span: Span::WHOLE,
            home: None,
        };
        let spans = [(0, 1), (0, 4096), (4096, 8192), (0, 4 << 20), (1 << 30, (1 << 30) + 512)];
        for object in ["data/made-up", "data/made up*/with some blanks.0001"] {
            for (start, end) in spans {
                let io = Io {
                    source: EntityName::local(),
                    tenant: TenantName::standard(),
                    via: None,
                    operation: Operation::Write,
                    object: object.parse()?,
                    span: Span::new(start, end),
                    home: None,
                };
                self.decide(&rule, &io)?;
            }
        }
        Ok(())
    }
}

fn function(run: &Run<'_>) -> Result<Function> {
    run.required_function(FUNCTION, "route(io) returns one of `destinations`")
}

/// Refuses programs that use functions of the paper that nodes do not offer.
fn check_offered(script: &Script) -> Result<()> {
    let mut names = script.names_missing_in(&ROUTE_INTERFACE).into_iter();
    let Some(name) = names.find(|name| NOT_OFFERED.contains(&name.global.as_str())) else {
        return Ok(());
    };
    let site = FaultSite {
        program: script.name().to_owned(),
        version: script.version(),
        line: Some(name.line),
        traceback: String::new(),
    };
    let text = format!(
        "unsupported: `{}`; a program that holds IO would wait for itself, and nodes hold and drain IO whenever rules change",
        name.global
    );
    Err(Error::unsupported(text).with_fault(site))
}

/// Reads the list of destinations that the program has set.
fn read_destinations(run: &Run<'_>) -> Result<Vec<Destination>> {
    let wrong = |what: String| Err(Error::invalid(what).hint(ROUTE_INTERFACE.functions[0].what));
    let list = match run.global(DESTINATIONS)? {
        Value::Table(list) => list,
        Value::Nil => return wrong(format!("the program must set `{DESTINATIONS}`")),
        other => {
            return wrong(format!("`{DESTINATIONS}` is a {}; it must be a list", type_of(&other)));
        }
    };
    let mut destinations = vec![];
    for place in 1..=list.raw_len() {
        let entry = list.raw_get::<Value>(place).map_err(|error| run.explain(&error))?;
        let Value::String(line) = &entry else {
            let what = format!("entry {place} of `{DESTINATIONS}` is a {}", type_of(&entry));
            return wrong(format!("{what}; it must be a string"));
        };
        let destination = Destination::from_line(&line.to_string_lossy())?;
        check_executed(&destination)?;
        declare(&mut destinations, destination)?;
    }
    match destinations.is_empty() {
        true => wrong(format!("`{DESTINATIONS}` is empty")),
        false => Ok(destinations),
    }
}

/// Refuses destinations to which no node sends IO.
fn check_executed(destination: &Destination) -> Result<()> {
    let is_executed = match destination {
        Destination::Home | Destination::Target(_) => true,
        Destination::Pool(pool) => pool.as_str() == ROUTED_POOL,
        Destination::Object(object) => {
            object.pool.as_str() == ROUTED_POOL && object.name.as_str().starts_with(NAMED_OBJECTS)
        }
        _ => false,
    };
    match is_executed {
        true => Ok(()),
        false => Err(Error::unsupported(format!(
            "unsupported: no node sends IO to \"{destination}\""
        ))
        .hint("declare home, target TARGET, pool nacre.routed or object nacre.routed/named/NAME")),
    }
}

/// Creates the argument of `route`.
fn io_to_lua(lua: &Lua, rule: &Header, io: &Io) -> mlua::Result<Table> {
    let own = Header { object: ObjectMatch::Exact(io.object.clone()), ..rule.clone() };
    let span = io.span.unwrap_or(Span::WHOLE);
    let table = lua.create_table_with_capacity(0, 9)?;
    table.raw_set("source", io.source.as_str())?;
    table.raw_set("tenant", io.tenant.as_str())?;
    table.raw_set("operation", io.operation.word())?;
    table.raw_set("object", text::escape(&io.object.to_string()))?;
    table.raw_set("pool", io.object.pool.as_str())?;
    table.raw_set("name", io.object.name.as_str())?;
    table.raw_set("rule", own.to_string())?;
    table.raw_set("offset", span.start() as f64)?;
    table.raw_set("length", span.length() as f64)?;
    table.set_readonly(true);
    Ok(table)
}
