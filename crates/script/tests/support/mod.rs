//! What the tests of this crate share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, MultiValue};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use nacre_program::Budget;
use nacre_script::{Script, Terms, Vm, raise};

/// Small enough that a hostile script ends soon.
pub fn small() -> Budget {
    Budget { time: Duration::from_millis(100), memory_bytes: 16 * 1024 * 1024, ..Budget::default() }
}

/// The same memory, and time enough however busy the machine.
pub fn unhurried() -> Budget {
    Budget { time: Duration::from_secs(60), ..small() }
}

/// A VM whose scripts can call the host functions `fail(message)` and `quiet(message)`. Both raise
/// `Conflict` unless the message is `fine`. `quiet` is made by `Host::function`, for functions
/// whose failures scripts usually catch.
pub fn vm() -> Vm {
    Vm::new(|host| {
        let fail = |_: &Lua, message: String| match message.as_str() {
            "fine" => Ok(("fine", 2)),
            _ => Err(raise(Error::conflict(message))),
        };
        host.globals.raw_set("fail", host.lua.create_function(fail)?)?;
        host.globals.raw_set("quiet", host.function(fail)?)
    })
    .unwrap()
}

pub fn script(source: &str) -> Script {
    Script::compile("test", 3, source.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a chunk without hurry; returns what it returned, as text.
pub fn run(vm: &mut Vm, source: &str) -> Result<Vec<String>> {
    run_within(vm, source, &unhurried())
}

pub fn run_within(vm: &mut Vm, source: &str, budget: &Budget) -> Result<Vec<String>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let script = script(source);
    let run = vm.start(&script, &Terms { budget, clock: &clock, seed: 1 })?;
    run.load().map(texts)
}

fn texts(values: MultiValue) -> Vec<String> {
    values.iter().map(|value| value.to_string().expect("tests return plain values")).collect()
}
