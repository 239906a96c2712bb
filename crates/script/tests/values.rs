//! Hooks that pass plain data: named globals in, values out.

mod support;

use std::sync::Arc;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{ErrorKind, Result};
use nacre_script::{Terms, Value, Vm};

/// Gives a script the global `input` and calls its function `f` with it.
fn call(vm: &mut Vm, source: &str, input: &Value) -> Result<Option<Vec<Value>>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (script, budget) = (support::script(source), support::unhurried());
    let run = vm.start(&script, &Terms { budget: &budget, clock: &clock, seed: 0 })?;
    run.set("input", input)?;
    run.load()?;
    run.call_global("f", std::slice::from_ref(input))
}

#[test]
fn values_pass_into_and_out_of_a_vm_as_copies() {
    let mut vm = support::vm();
    let value = Value::record([
        ("load", Value::sequence([Value::Number(0.5), Value::Number(2.0)])),
        ("name", Value::text(b"\0\xff")),
        ("up", Value::Boolean(true)),
    ]);
    let same = call(&mut vm, "function f(x) return x end", &value).unwrap().unwrap();
    for name in ["load", "name", "up"] {
        assert_eq!(same[0].get(name), value.get(name), "{name}");
    }
    let source = "function f(x) x.up = false return input.up, x.load[2] + #input.load end";
    let returned = call(&mut vm, source, &value).unwrap().unwrap();
    assert_eq!(returned, [Value::Boolean(true), Value::Number(4.0)]);
    assert_eq!(call(&mut vm, "function g() end", &Value::Nil).unwrap(), None);
}

#[test]
fn a_chunk_that_stays_loaded_sees_each_runs_own_globals() {
    let mut vm = support::vm();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (script, budget) = (support::script("return _G.whoami, table_of.x"), support::unhurried());
    for number in [1, 2] {
        let terms = Terms { budget: &budget, clock: &clock, seed: 0 };
        let run = vm.start(&script, &terms).unwrap();
        run.set("whoami", &Value::Number(f64::from(number))).unwrap();
        run.set("table_of", &Value::record([("x", Value::Number(f64::from(number)))])).unwrap();
        let seen: Vec<_> = run.load().unwrap().iter().map(|v| v.as_i32().unwrap()).collect();
        assert_eq!(seen, [number, number]);
    }
}

#[test]
fn values_that_are_no_plain_data_or_too_large_are_refused() {
    let mut vm = support::vm();
    for source in [
        "function f() return f end",
        "function f() local t = {} t.t = t return t end",
        "function f() return coroutine.create(f) end",
        "function f() return table.create(70000, 1) end",
    ] {
        let error = call(&mut vm, source, &Value::Nil).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{source}: {error}");
    }
}
