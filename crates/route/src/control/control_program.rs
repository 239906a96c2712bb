//! `ControlProgram`: one compiled version of a control program.

use std::sync::Arc;

use mlua::{Function, Table, Value};
use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_script::{JsonBounds, ProgramVersion, ProgramVm, Run, json_to_lua, type_of};

use super::control_library::{ControlLibrary, Finished};
use super::interface::{CACHES_SETTING, FUNCTION, OBJECTS_SETTING, SETTINGS};
use super::setting::{unknown, with_defaults};
use super::{
    CacheLoad, CacheTenant, ControlInput, ControlOutput, ObjectLoad, Setting, Settings, TargetLoad,
    TenantLoad, WaitingIo,
};
use crate::limits::{
    CONTROL_BUDGET, MAX_CONTROL_STATE_BYTES, MAX_CONTROL_STATE_DEPTH, MAX_SETTING_BYTES,
    MAX_SETTINGS,
};
use crate::model::ObjectMatch;

thread_local! {
    static VM: ProgramVm<ControlLibrary> = const { ProgramVm::new() };
}

const STATE_BOUNDS: JsonBounds = JsonBounds {
    what: "cluster.state",
    bytes: MAX_CONTROL_STATE_BYTES,
    depth: MAX_CONTROL_STATE_DEPTH,
};

/// One compiled version of a control program.
#[derive(Debug)]
pub struct ControlProgram {
    version: ProgramVersion,
    defaults: Settings,
}

impl ControlProgram {
    /// Compiles a program, runs its top level once, and reads the settings that it declares.
    ///
    /// # Errors
    /// `Fault` with the line that fails; `Invalid` if a definition is missing or malformed.
    pub fn compile(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let version = ProgramVersion::new(name, version, source, clock, &CONTROL_BUDGET);
        let defaults = version.run(&VM, |run, _| {
            function(run)?;
            read_settings(run)
        })?;
        objects_of(&defaults)?;
        Ok(Self { version, defaults })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version.number()
    }

    /// The settings with the values that an operator has given.
    ///
    /// # Errors
    /// `Invalid` if a value has an unknown name or the wrong type, or if `objects` is malformed.
    pub fn settings(&self, given: &Settings) -> Result<Settings> {
        let settings = with_defaults(&self.defaults, given)?;
        objects_of(&settings)?;
        Ok(settings)
    }

    /// Reads a setting that an operator has written as `NAME=VALUE`.
    ///
    /// # Errors
    /// As [`ControlProgram::settings`].
    pub fn parse_setting(&self, name: &str, value: &str) -> Result<Setting> {
        let default = self.defaults.get(name).ok_or_else(|| unknown(name, &self.defaults))?;
        default.parse_alike(value).map_err(|error| error.on(name))
    }

    /// The objects that the switches count for this program.
    ///
    /// # Errors
    /// As [`ControlProgram::settings`].
    pub fn objects(&self, given: &Settings) -> Result<Vec<ObjectMatch>> {
        objects_of(&with_defaults(&self.defaults, given)?)
    }

    /// Whether the program gets the caches of the nodes.
    pub fn wants_caches(&self, given: &Settings) -> bool {
        let setting = given.get(CACHES_SETTING).or_else(|| self.defaults.get(CACHES_SETTING));
        setting == Some(&Setting::Switch(true))
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// `Fault` with the line where the program fails; `Exhausted` if it exceeds its budget or a
    /// bound. Both name the program and its version.
    pub fn control(&self, input: &ControlInput) -> Result<ControlOutput> {
        let ran = self.version.run(&VM, |run, library| {
            let control = function(run)?;
            let view = serde_json::to_value(input)
                .map_err(|cause| Error::invalid(format!("a number is not finite: {cause}")))?;
            let view = json_to_lua(run.lua(), &view).map_err(|error| run.explain(&error))?;
            library.begin(&input.rules)?;
            let called = run.call(&control, view.clone());
            let Finished { rules, shares, told } = library.finish();
            called?;
            let state = match &view {
                Value::Table(view) => state_of(run, view)?,
                _ => serde_json::Value::Null,
            };
            Ok(ControlOutput { rules, shares, state, told })
        });
        ran.map_err(|error| self.version.blame(error, FUNCTION))
    }

    /// Runs the program on a made-up cluster: first without load, then with a burst on one target.
    pub(super) fn rehearse(&self) -> Result<()> {
        let mut input = ControlInput {
            now: 1e9,
            seconds: 0.0,
            settings: self.defaults.clone(),
            state: serde_json::Value::Object(serde_json::Map::new()),
            targets: made_up_targets(0.0),
            objects: vec![],
            cache: None,
            rules: vec![],
            waiting: vec![],
        };
        for (step, load) in [0.0, 100.0, 1e6, 0.0].into_iter().enumerate() {
            input.now += 1.0;
            input.seconds = if step == 0 { 0.0 } else { 1.0 };
            input.targets = made_up_targets(load);
            input.objects = made_up_objects(load);
            input.cache = (step > 1).then(|| made_up_cache(load));
            input.waiting = if step == 1 { made_up_waiting() } else { vec![] };
            let ControlOutput { rules, state, .. } = self.control(&input)?;
            (input.rules, input.state) = (rules, state);
        }
        Ok(())
    }
}

fn function(run: &Run<'_>) -> Result<Function> {
    run.required_function(FUNCTION, "control(cluster) changes the rules with insert and delete")
}

fn state_of(run: &Run<'_>, view: &Table) -> Result<serde_json::Value> {
    let state = view.raw_get::<Value>("state").map_err(|error| run.explain(&error))?;
    match STATE_BOUNDS.from_lua(&state)? {
        serde_json::Value::Null => Ok(serde_json::Value::Object(serde_json::Map::new())),
        state => Ok(state),
    }
}

/// Reads the table of settings that the program has set.
fn read_settings(run: &Run<'_>) -> Result<Settings> {
    let table = match run.global(SETTINGS)? {
        Value::Nil => return Ok(Settings::new()),
        Value::Table(table) => table,
        other => {
            let text = format!("`{SETTINGS}` is a {}; it must be a table", type_of(&other));
            return Err(Error::invalid(text));
        }
    };
    let mut settings = Settings::new();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair.map_err(|error| run.explain(&error))?;
        let Value::String(name) = name else {
            return Err(Error::invalid(format!("a key of `{SETTINGS}` is a {}", type_of(&name)))
                .hint("name each setting: settings = { alpha = 2 }"));
        };
        let name = name.to_string_lossy();
        let setting = match value {
            Value::Boolean(value) => Setting::Switch(value),
            Value::Integer(value) => Setting::Number(value as f64),
            Value::Number(value) if value.is_finite() => Setting::Number(value),
            Value::String(text) if text.as_bytes().len() <= MAX_SETTING_BYTES => {
                Setting::Text(text.to_string_lossy())
            }
            other => {
                let text = format!("the setting {name} is a {}", type_of(&other));
                return Err(Error::invalid(text)
                    .hint("give a finite number, a boolean, or a string of 1 KiB at most"));
            }
        };
        settings.insert(name, setting);
        if settings.len() > MAX_SETTINGS {
            return Err(Error::exhausted(format!("a program has {MAX_SETTINGS} settings at most")));
        }
    }
    Ok(settings)
}

/// Reads the setting `objects`.
fn objects_of(settings: &Settings) -> Result<Vec<ObjectMatch>> {
    match settings.get(OBJECTS_SETTING) {
        None => Ok(vec![]),
        Some(Setting::Text(text)) => {
            text.split_whitespace().map(ObjectMatch::parse).collect::<Result<_>>()
        }
        Some(_) => Err(Error::invalid(format!("the setting {OBJECTS_SETTING} is not a string"))
            .hint("name objects as in rules: \"data/* logs/*\"")),
    }
}

fn made_up_targets(load: f64) -> Vec<TargetLoad> {
    let target = |(place, share): (usize, f64)| TargetLoad {
        name: format!("made-up.{place}"),
        answers: true,
        requests: load * share,
        reads: load * share / 2.0,
        writes: load * share / 2.0,
        routed_bytes: 0,
        tenants: vec![TenantLoad {
            name: "made-up".to_owned(),
            reads: load * share / 2.0,
            writes: load * share / 2.0,
        }],
    };
    [1.0, 0.1, 0.0].into_iter().enumerate().map(target).collect()
}

fn made_up_cache(load: f64) -> CacheLoad {
    let tenant = |name: &str, reads| CacheTenant {
        name: name.to_owned(),
        reads,
        share: None,
        curve: vec![(1 << 20, 0.5), (8 << 20, 0.1)],
    };
    CacheLoad { bytes: 16 << 20, tenants: vec![tenant("idle", 0.0), tenant("made-up", load)] }
}

fn made_up_waiting() -> Vec<WaitingIo> {
    let io = |offset: Option<u64>| WaitingIo {
        object: "data/made-up.2".to_owned(),
        target: "made-up.0".to_owned(),
        operation: "write".to_owned(),
        source: "made-up".to_owned(),
        tenant: "made-up".to_owned(),
        offset,
        length: offset.map(|_| 4096),
    };
    vec![io(Some(0)), io(None)]
}

fn made_up_objects(load: f64) -> Vec<ObjectLoad> {
    let object = |(place, writes): (usize, f64)| ObjectLoad {
        object: format!("data/made-up.{place}"),
        target: "made-up.0".to_owned(),
        reads: load,
        writes,
        read_only_seconds: if writes > 0.0 { 0.0 } else { 3600.0 },
    };
    [0.0, load].into_iter().enumerate().map(object).collect()
}
