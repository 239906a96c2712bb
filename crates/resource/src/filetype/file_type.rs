//! `FileType`: one version of a file type, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use nacre_capability::Mode;
use nacre_clock::Clock;
use nacre_object::{Error, ProgramName, Result};
use nacre_program::Digest;
use nacre_script::{JsonBounds, LoadedVm, ProgramVm, Run, Terms, json_to_lua};
use serde_json::Value;

use super::Locking;
use super::library::TypeLibrary;
use super::native::NativeType;
use crate::limits::{
    CALL_BUDGET, MAX_DEPTH, MAX_OUTPUT_BYTES, MAX_STATE_BYTES, MAX_WRITE_OUTPUT_BYTES,
};

thread_local! {
    static VM: ProgramVm<TypeLibrary> = const { ProgramVm::new() };
}

pub(super) const STATE: JsonBounds =
    JsonBounds { what: "the state of a resource", bytes: MAX_STATE_BYTES, depth: MAX_DEPTH };
pub(super) const READ_OUTPUT: JsonBounds =
    JsonBounds { what: "the output of a method", bytes: MAX_OUTPUT_BYTES, depth: MAX_DEPTH };
pub(super) const WRITE_OUTPUT: JsonBounds = JsonBounds {
    what: "the output of a method that writes",
    bytes: MAX_WRITE_OUTPUT_BYTES,
    depth: MAX_DEPTH,
};

/// Whether a method may change the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It may change the state.
    Write,
}

/// How the state of a resource survives the death of its authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Each change is stored before it is answered.
    Journaled,
    /// The authority answers a change before it stores it, unless the method calls
    /// `filetype.store`. After a failure, a function of the file type repairs the last stored
    /// state.
    Recovered,
}

/// One version of a file type.
#[derive(Debug)]
pub struct FileType {
    name: String,
    version: u64,
    code: Code,
    digest: String,
    methods: BTreeMap<String, Access>,
    survival: Survival,
    locking: Option<Locking>,
}

/// What runs.
#[derive(Debug)]
enum Code {
    Luau(Arc<str>),
    Native(&'static dyn NativeType),
}

/// A call of a method.
#[derive(Debug, Clone, Copy)]
pub struct MethodCall<'a> {
    /// The method.
    pub method: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// The entity that calls.
    pub client: &'a str,
    /// Whose requests these are.
    pub tenant: &'a str,
    /// The time: microseconds since 1970, UTC.
    pub now_micros: u64,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The changed state; `None` if the method only reads.
    pub state: Option<Value>,
    /// The output.
    pub output: Value,
    /// Whether the method called `filetype.store`. Then the change is stored before it is answered.
    pub must_store: bool,
}

impl FileType {
    /// Compiles the source of a file type, and runs it once.
    ///
    /// # Errors
    /// `Fault` with the line where it fails; `Invalid` if it adds no method.
    pub fn compile(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let (methods, survival, locking) = (BTreeMap::new(), Survival::Journaled, None);
        let (name, source) = (name.to_owned(), source.into());
        let (digest, code) = (Digest::of(source.as_bytes()).to_string(), Code::Luau(source));
        let mut compiled = Self { name, version, code, digest, methods, survival, locking };
        (compiled.methods, compiled.survival, compiled.locking) =
            compiled.run(clock, 0, |_, library| {
                let survival = match library.recovery() {
                    Some(_) => Survival::Recovered,
                    None => Survival::Journaled,
                };
                Ok((library.methods(), survival, library.locking()))
            })?;
        if compiled.methods.is_empty() {
            return Err(Error::invalid("a file type adds at least one method")
                .hint("call filetype.read(name, method) or filetype.write(name, method)"));
        }
        let is_exclusive = compiled.most_granted() == Some(Mode::Exclusive);
        if is_exclusive && compiled.survival == Survival::Journaled {
            let text = "clients cannot hold the exclusive capability of a journaled type, whose changes are stored one by one";
            return Err(Error::invalid(text)
                .hint("call filetype.recovered as well, or say filetype.capability(\"shared\")"));
        }
        Ok(compiled)
    }

    /// A file type that is compiled into nacre.
    pub(super) fn native(
        name: &str,
        code: &'static dyn NativeType,
        methods: &[(&str, Access)],
        survival: Survival,
    ) -> Self {
        let methods = methods.iter().map(|(name, access)| ((*name).to_owned(), *access)).collect();
        let (code, digest) = (Code::Native(code), String::new());
        Self { name: name.to_owned(), version: 1, code, digest, methods, survival, locking: None }
    }

    /// This file type, with capabilities that clients may hold.
    pub(super) fn lending(self, locking: Locking) -> Self {
        Self { locking: Some(locking), ..self }
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The methods by name.
    pub fn methods(&self) -> &BTreeMap<String, Access> {
        &self.methods
    }

    /// How the state survives.
    pub fn survival(&self) -> Survival {
        self.survival
    }

    /// Which capabilities clients may hold; `None` if each call is a round trip.
    pub fn locking(&self) -> Option<&Locking> {
        self.locking.as_ref()
    }

    /// The most that a client may hold.
    pub fn most_granted(&self) -> Option<Mode> {
        self.locking.as_ref().map(|locking| locking.mode)
    }

    /// The digest of the source.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program.
    pub fn program(&self) -> Option<ProgramName> {
        self.name.rsplit('/').next()?.parse().ok()
    }

    /// The source; `None` if it is compiled into nacre.
    pub fn source(&self) -> Option<&str> {
        match &self.code {
            Code::Luau(source) => Some(source),
            Code::Native(_) => None,
        }
    }

    /// The state of a new resource.
    ///
    /// # Errors
    /// Those of `init`.
    pub fn initial(&self, clock: &Arc<dyn Clock>) -> Result<Value> {
        if let Code::Native(native) = &self.code {
            return Ok(native.initial());
        }
        self.run(clock, 0, |run, _| match run.global("init")? {
            mlua::Value::Function(init) => {
                let returned = run.call(&init, ())?;
                STATE.from_lua(returned.front().unwrap_or(&mlua::Value::Nil))
            }
            mlua::Value::Nil => Ok(Value::Null),
            other => Err(Error::invalid(format!("`init` is a {}", other.type_name()))),
        })
    }

    /// Repairs the last stored state after the death of an authority, which may have answered later
    /// changes. `now_micros` is the time in microseconds since 1970, UTC.
    ///
    /// # Errors
    /// `Unsupported` if this version is journaled; `Fault` if the function fails; `Exhausted` if it
    /// exceeds its budget, or if the state is too large.
    pub fn recovered(
        &self,
        state: &Value,
        now_micros: u64,
        clock: &Arc<dyn Clock>,
    ) -> Result<Value> {
        if let Code::Native(native) = &self.code {
            return native.recovered(state);
        }
        self.run(clock, now_micros, |run, library| {
            let recovery = library.recovery().ok_or_else(|| {
                let version = self.version;
                Error::unsupported(format!(
                    "version {version} of the file type cannot recover the state"
                ))
                .hint("activate a version that calls filetype.recovered")
            })?;
            let state = json_to_lua(run.lua(), state).map_err(|error| run.explain(&error))?;
            run.call(&recovery, state.clone())?;
            STATE.from_lua(&state)
        })
    }

    /// Runs a method.
    ///
    /// # Errors
    /// Those of the method; `Unsupported` if there is no method of that name; `Fault` if it fails;
    /// `Exhausted` if it exceeds its budget, or if the state or the output is too large.
    pub fn call(
        &self,
        call: &MethodCall<'_>,
        state: &Value,
        clock: &Arc<dyn Clock>,
    ) -> Result<Outcome> {
        if let Code::Native(native) = &self.code {
            self.check_method(call.method)?;
            return native.call(call.method, state, call.input);
        }
        self.run(clock, call.now_micros, |run, library| {
            let (access, method) = library.method(call.method)?;
            let explain = |error: mlua::Error| run.explain(&error);
            let argument = json_to_lua(run.lua(), state).map_err(explain)?;
            let input = json_to_lua(run.lua(), call.input).map_err(explain)?;
            let about = about(run, call).map_err(explain)?;
            let returned = run.call(&method, (argument.clone(), input, about))?;
            let output = returned.front().unwrap_or(&mlua::Value::Nil);
            Ok(match access {
                Access::Read => Outcome {
                    state: None,
                    output: READ_OUTPUT.from_lua(output)?,
                    must_store: false,
                },
                Access::Write => Outcome {
                    state: Some(STATE.from_lua(&argument)?),
                    output: WRITE_OUTPUT.from_lua(output)?,
                    must_store: library.must_store(),
                },
            })
        })
    }

    /// # Errors
    /// `Unsupported` with the methods there are.
    fn check_method(&self, name: &str) -> Result<()> {
        match self.methods.contains_key(name) {
            true => Ok(()),
            false => Err(no_method(name, self.methods.keys())),
        }
    }

    fn run<R>(
        &self,
        clock: &Arc<dyn Clock>,
        seed: u64,
        body: impl FnOnce(&Run<'_>, &TypeLibrary) -> Result<R>,
    ) -> Result<R> {
        let source = self.source().unwrap_or_default();
        let in_vm = |loaded: &mut LoadedVm<TypeLibrary>| {
            let script = loaded.script(&self.name, self.version, source.as_bytes())?;
            let terms = Terms { budget: &CALL_BUDGET, clock, seed };
            loaded.library.clear();
            let run = loaded.vm.start(&script, &terms)?;
            run.load()?;
            loaded.library.set_loaded();
            let ran = body(&run, &loaded.library);
            loaded.library.clear();
            ran
        };
        VM.with(|vm| vm.with(in_vm))
    }
}

/// The error for a method that the file type does not have. Its hint names the methods that it has.
pub(super) fn no_method<'a>(name: &str, methods: impl Iterator<Item = &'a String>) -> Error {
    let names: Vec<_> = methods.map(String::as_str).collect();
    Error::unsupported(format!("the file type has no method {name:?}"))
        .hint(format!("call one of {}", names.join(", ")))
}

/// The argument `call` of a method.
fn about(run: &Run<'_>, call: &MethodCall<'_>) -> mlua::Result<mlua::Table> {
    let table = run.lua().create_table()?;
    table.raw_set("client", call.client)?;
    table.raw_set("tenant", call.tenant)?;
    table.raw_set("now", call.now_micros as f64 / 1e6)?;
    Ok(table)
}
