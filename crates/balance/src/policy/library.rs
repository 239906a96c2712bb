//! `PolicyLibrary`: the functions that policies call, and what they read and write.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Value};
use nacre_object::Error;
use nacre_script::{Host, Library, raise, type_of};

use super::values::{described, whole_number};
use crate::limits::{MAX_LOG_CHARACTERS, MAX_LOG_LINES};
use crate::{LogLine, State};

/// The data that the functions of a run read and write.
#[derive(Default)]
struct Ledger {
    state: State,
    log: Vec<LogLine>,
}

/// The functions that policies call, in the VM of a thread.
pub(crate) struct PolicyLibrary(Rc<RefCell<Ledger>>);

impl PolicyLibrary {
    /// Prepares for a run with the state that the last decision has left.
    pub fn begin(&self, state: &State) {
        *self.0.borrow_mut() = Ledger { state: state.clone(), log: vec![] };
    }

    /// What the run has written and logged.
    pub fn finish(&self) -> (State, Vec<LogLine>) {
        let Ledger { state, log } = std::mem::take(&mut *self.0.borrow_mut());
        (state, log)
    }
}

impl Library for PolicyLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let math: mlua::Table = host.lua.globals().raw_get("math")?;
        for (name, function) in [("max", "max"), ("min", "min"), ("Max", "max"), ("Min", "min")] {
            host.globals.raw_set(name, math.raw_get::<Value>(function)?)?;
        }
        install_state(host, &ledger)?;
        install_log(host, &ledger)?;
        install_refusal(host)?;
        Ok(Self(ledger))
    }
}

fn install_state(host: &Host<'_>, ledger: &Rc<RefCell<Ledger>>) -> mlua::Result<()> {
    for name in ["WRstate", "WRState"] {
        let ledger = Rc::clone(ledger);
        let write = host.function(move |_, value: Value| {
            ledger.borrow_mut().state = State::from_lua(&value).map_err(raise)?;
            Ok(())
        })?;
        host.globals.raw_set(name, write)?;
    }
    for name in ["RDstate", "RDState"] {
        let ledger = Rc::clone(ledger);
        let read = host.function(move |lua: &Lua, ()| ledger.borrow().state.to_lua(lua))?;
        host.globals.raw_set(name, read)?;
    }
    Ok(())
}

fn install_log(host: &Host<'_>, ledger: &Rc<RefCell<Ledger>>) -> mlua::Result<()> {
    let ledger = Rc::clone(ledger);
    let log = host.function(move |_, arguments: MultiValue| {
        let level = arguments.front().and_then(whole_number).ok_or_else(|| {
            raise(Error::invalid("invalid argument: the level of BAL_LOG is not an integer"))
        })?;
        let log = &mut ledger.borrow_mut().log;
        if log.len() < MAX_LOG_LINES {
            log.push(LogLine { level, text: logged_text(&arguments)? });
        }
        Ok(())
    })?;
    host.globals.raw_set("BAL_LOG", log)
}

fn logged_text(arguments: &MultiValue) -> mlua::Result<String> {
    let mut text = String::new();
    for argument in arguments.iter().skip(1) {
        match argument {
            // Copy only the part of a long string that is kept.
            Value::String(part) => {
                let bytes = part.as_bytes();
                let kept = &bytes[..bytes.len().min(4 * MAX_LOG_CHARACTERS)];
                text.push_str(&String::from_utf8_lossy(kept));
            }
            Value::Integer(_) | Value::Number(_) | Value::Boolean(_) | Value::Nil => {
                text.push_str(&argument.to_string()?);
            }
            other => text.push_str(type_of(other)),
        }
        if text.len() > 4 * MAX_LOG_CHARACTERS {
            break;
        }
    }
    Ok(text.chars().take(MAX_LOG_CHARACTERS).collect())
}

/// Installs the function that the loop over the units calls for an invalid load. It raises an
/// error.
fn install_refusal(host: &Host<'_>) -> mlua::Result<()> {
    let refuse = host.function(|_, (at, load): (usize, Value)| {
        let load = described(&load);
        let text = format!(
            "`metaload` of unit {} gives {load}; a load is a finite number that is not negative",
            at + 1
        );
        Err::<(), _>(raise(Error::new(nacre_object::ErrorKind::Fault, text)))
    })?;
    host.globals.raw_set(REFUSE, refuse)
}

/// The name of the function that raises an error for an invalid load.
pub(crate) const REFUSE: &str = "nacre_refuse_load";
