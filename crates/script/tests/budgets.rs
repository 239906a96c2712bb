//! Every limit ends a run, whatever the script does about it, and the VM goes on.

mod support;

use std::sync::Arc;
use std::time::Duration;

use mlua::Lua;
use nacre_clock::{Clock, ManualClock, SystemClock};
use nacre_object::{Error, ErrorKind};
use nacre_program::Budget;
use nacre_script::{Terms, Vm, raise};
use support::{run, run_within, script, small, unhurried, vm};

/// Runs a hostile script. The run must end with `Exhausted` within twice its CPU time. Afterwards
/// the same VM, or the VM that replaces it, must be able to run another script.
fn assert_stopped(source: &str) {
    let mut vm = vm();
    let budget = small();
    let thread_time = || SystemClock::default().thread_time().expect("this system can tell");
    let before = thread_time();
    let error = run_within(&mut vm, source, &budget).expect_err(source);
    let took = thread_time() - before;
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{source}\n{error}");
    assert!(took < 2 * budget.time, "{source}\ntook {took:?} of {:?}", budget.time);
    if vm.is_damaged() {
        vm = support::vm();
    }
    assert_eq!(run(&mut vm, "return 'still here'").unwrap(), ["still here"]);
}

#[test]
fn endless_loops_end_with_exhausted() {
    assert_stopped("while true do end");
    assert_stopped("local function spin() while true do end end while true do pcall(spin) end");
    assert_stopped(
        "local function spin() while true do end end while true do xpcall(spin, spin) end",
    );
    assert_stopped("repeat local ok = pcall(error) until false");
    assert_stopped("local function f() pcall(f) f() end while true do pcall(f) end");
    assert_stopped("for i = 1, math.huge do end");
    assert_stopped(
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
    );
}

#[test]
fn endless_loops_in_coroutines_end_with_exhausted() {
    assert_stopped("coroutine.wrap(function() while true do end end)()");
    assert_stopped(
        "local function spin() while true do end end while true do coroutine.resume(coroutine.create(spin)) end",
    );
    assert_stopped("while true do coroutine.wrap(function() coroutine.yield() end)() end");
    assert_stopped(
        "local co co = coroutine.create(function() while true do pcall(coroutine.yield) end end) while true do coroutine.resume(co) end",
    );
    assert_stopped(
        "while true do local co = coroutine.create(function() while true do end end) coroutine.resume(co) coroutine.close(co) end",
    );
}

#[test]
fn a_swallowed_abort_still_fails_the_run() {
    // Straight-line code after the last step: nothing is left to interrupt.
    assert_stopped(
        "local co = coroutine.create(function() while true do end end) local r = coroutine.resume(co)",
    );
    assert_stopped("local ok = pcall(function() while true do end end) return ok");
}

#[test]
fn long_searches_end_with_exhausted() {
    assert_stopped("('a'):rep(50000):find(('.-'):rep(20) .. 'b')");
    assert_stopped("('a'):rep(30):find(('a*'):rep(30) .. 'b')");
    assert_stopped("while true do pcall(string.find, ('a'):rep(50000), ('.-'):rep(20) .. 'b') end");
    assert_stopped("('a'):rep(50000):gsub(('.-'):rep(20) .. 'b', '')");
    assert_stopped("for _ in ('a'):rep(50000):gmatch(('.-'):rep(20) .. 'b') do end");
    assert_stopped(
        "local s = ('b'):rep(1e6) local p = '[^' .. ('a'):rep(1e6) .. ']*c' while true do pcall(string.find, s, p) end",
    );
    assert_stopped(
        "local s, p = ('a'):rep(4e6), ('a'):rep(2e6) .. 'b' while true do s:find(p, 1, true) s:find(p) s:split(p) end",
    );
    assert_stopped(
        "local s, p = ('a'):rep(4e6), ('a'):rep(2e6) .. 'b' while true do pcall(string.match, s, p) end",
    );
    assert_stopped("local s = ('('):rep(1e6) while true do s:find('%b()') end");
}

#[test]
fn long_library_calls_end_with_exhausted() {
    assert_stopped("while true do table.move({}, 1, 2^31 - 2, 2) end");
    assert_stopped("local t = {} t[2^20] = 1 while true do table.move(t, 1, 2^30, 2, {}) end");
    assert_stopped("local t = table.create(900000, 0.1) while true do table.concat(t) end");
    assert_stopped("local t = table.create(900000, 0.1) while true do table.sort(t) end");
    assert_stopped(
        "local a = ('x'):rep(3e6) local b, t = a .. 'y', {} for i = 1, 5000 do t[i] = i % 2 == 0 and a or b end while true do table.sort(t) end",
    );
    assert_stopped("local s = ('x'):rep(4e6) while true do s:upper() s:reverse() utf8.len(s) end");
    assert_stopped(
        "local t = {} for i = 1, 1e5 do t[-i] = i t[i] = i end while true do table.insert(t, 1, 1) end",
    );
    assert_stopped(
        "local s = ('%d'):rep(1000) while true do pcall(string.format, s, unpack(table.create(1000, 7))) end",
    );
}

#[test]
fn error_objects_cannot_delay_the_host() {
    assert_stopped("error(setmetatable({}, {__tostring = function() while true do end end}))");
    assert_stopped(
        "error(setmetatable({}, {__tostring = function() while true do pcall(error) end end}))",
    );
}

#[test]
fn endless_allocation_ends_with_exhausted() {
    assert_stopped("local s = 'x' while true do s = s .. s end");
    assert_stopped("local s = 'x' while true do pcall(function() s = s .. s end) end");
    assert_stopped("local t = {} while true do t[#t + 1] = {} end");
    assert_stopped("local t = {} while true do pcall(table.insert, t, ('x'):rep(1000) .. #t) end");
    assert_stopped("string.rep('x', 1e9)");
    assert_stopped("while true do pcall(string.rep, 'x', 1e9) end");
    assert_stopped("buffer.create(1e9)");
    assert_stopped("table.create(1e7)");
    assert_stopped("local function f(...) return f(1, ...) end f()");
    assert_stopped("local t = {} while true do t[#t + 1] = coroutine.create(function() end) end");
    assert_stopped("coroutine.wrap(function() pcall(string.rep, 'x', 1e9) end)()");
    assert_stopped("return ('x'):rep(1e6):gsub('x', ('y'):rep(1e3))");
}

#[test]
fn deep_recursion_is_a_fault_a_script_can_catch() {
    let mut vm = vm();
    let error = run(&mut vm, "local function f() return 1 + f() end f()").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
    assert!(error.message().contains("stack overflow"));
    let caught = "local function f() return 1 + f() end return (pcall(f))";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false"]);
    for source in [
        "local function f() return pcall(f) end f()",
        "local function f() return ('x'):gsub('x', f) end f()",
        "local function f() return coroutine.wrap(f)() end f()",
        "local function f() table.sort({1, 2, 3}, f) end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) tostring(t)",
    ] {
        if let Err(error) = run(&mut vm, source) {
            assert_eq!(error.kind(), ErrorKind::Fault, "{source}\n{error}");
        }
        assert_eq!(run(&mut vm, "return 1").unwrap(), ["1"]);
    }
}

#[test]
fn steps_end_a_run_when_the_clock_stands_still() {
    let mut vm = vm();
    let budget = Budget { steps: 100_000, ..Budget::default() };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(0));
    let script = script("while true do pcall(error) end");
    let run = vm.start(&script, &Terms { budget: &budget, clock: &clock, seed: 0 }).unwrap();
    let error = run.load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.message().contains("100000 steps"), "{error}");
}

/// The smallest limit of steps within which a loop of this many iterations runs.
fn least_steps(vm: &mut Vm, iterations: u64) -> u64 {
    let source = format!("for i = 1, {iterations} do end");
    let fits =
        |steps: &u64| run_within(vm, &source, &Budget { steps: *steps, ..unhurried() }).is_ok();
    (0..iterations + 100).find(fits).expect("a step an iteration, and some")
}

#[test]
fn every_step_counts_although_not_every_step_checks_the_budget() {
    let mut vm = vm();
    let alone = least_steps(&mut vm, 0);
    for iterations in 1..40 {
        assert_eq!(least_steps(&mut vm, iterations), alone + iterations);
    }
}

#[test]
fn a_nested_run_does_not_change_the_steps_of_the_outer_one() {
    let mut vm = Vm::new(|host| {
        let nest = |_: &Lua, iterations: u64| {
            run(&mut support::vm(), &format!("for i = 1, {iterations} do end")).map_err(raise)?;
            Ok(())
        };
        host.globals.raw_set("nest", host.lua.create_function(nest)?)
    })
    .unwrap();
    let mut fits = |steps, inner| {
        let source = format!("for i = 1, 20 do nest({inner}) end");
        run_within(&mut vm, &source, &Budget { steps, ..unhurried() }).is_ok()
    };
    let least = (0..100).find(|steps| fits(*steps, 0)).expect("some steps a call");
    for inner in 1..20 {
        assert!(fits(least, inner) && !fits(least - 1, inner), "{inner} steps in between");
    }
}

#[test]
fn a_run_is_timed_by_the_injected_clock() {
    let mut vm = vm();
    let manual = Arc::new(ManualClock::at(0));
    let clock: Arc<dyn Clock> = manual.clone();
    let budget = Budget { time: Duration::from_millis(5), ..Budget::default() };
    let script = script("for i = 1, 100 do end return 1");
    let terms = Terms { budget: &budget, clock: &clock, seed: 0 };
    let run = vm.start(&script, &terms).unwrap();
    assert!(run.load().is_ok());
    manual.advance(Duration::from_millis(5));
    let error = run.load().unwrap_err();
    assert!(error.message().contains("5 ms"), "{error}");
    assert!(run.load().is_err(), "once over, over for good");
    drop(run);
    assert!(vm.start(&script, &terms).unwrap().load().is_ok(), "the next run starts anew");
}

/// A clock of a busy machine, on which the thread gets a hundredth of the time of a CPU.
#[derive(Debug)]
struct BusyMachine(ManualClock);

impl Clock for BusyMachine {
    fn now_micros(&self) -> u64 {
        self.0.now_micros()
    }

    fn monotonic(&self) -> Duration {
        self.0.advance(Duration::from_millis(1));
        self.0.monotonic()
    }

    fn thread_time(&self) -> Option<Duration> {
        Some(self.0.monotonic() / 100)
    }
}

#[test]
fn waits_do_not_count_if_the_clock_can_tell_cpu_time() {
    let mut vm = vm();
    let clock: Arc<dyn Clock> = Arc::new(BusyMachine(ManualClock::at(0)));
    let budget = Budget { time: Duration::from_millis(5), ..Budget::default() };
    let terms = Terms { budget: &budget, clock: &clock, seed: 0 };
    let patient = script("for i = 1, 400 do end return 1");
    assert!(vm.start(&patient, &terms).unwrap().load().is_ok());
    let endless = script("while true do end");
    let error = vm.start(&endless, &terms).unwrap().load().unwrap_err();
    assert!(error.message().contains("5 ms"), "{error}");
}

#[test]
fn a_run_over_its_memory_leaves_a_vm_that_still_serves() {
    let mut vm = vm();
    for _ in 0..20 {
        let source = "local t = {} while true do t[#t + 1] = {} end";
        let error = run_within(&mut vm, source, &unhurried()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(vm.is_damaged(), "its owner is told to replace it");
        assert_eq!(run(&mut vm, "local t = table.create(1000, 'x') return #t").unwrap(), ["1000"]);
    }
}

#[test]
fn garbage_of_a_run_does_not_count_against_the_next() {
    let mut vm = vm();
    for _ in 0..20 {
        // 200 MiB of garbage within a budget of 16 MiB, again and again.
        let source = "for i = 1, 100 do local s = ('x'):rep(2^20) .. i end";
        assert!(run_within(&mut vm, source, &unhurried()).is_ok());
    }
    assert!(!vm.is_damaged());
}

#[test]
fn an_abort_names_the_line_it_happened_at() {
    let error: Error =
        run_within(&mut vm(), "local x = 1\nwhile true do\n x = x + 1\nend", &small()).unwrap_err();
    let line = error.fault().and_then(|site| site.line).unwrap();
    assert!((2..=4).contains(&line), "{error}");
}

/// The heap of a VM between two runs.
fn heap_bytes(vm: &mut Vm) -> usize {
    let (clock, budget): (Arc<dyn Clock>, _) = (Arc::new(SystemClock::default()), unhurried());
    let script = script("return 0");
    let terms = Terms { budget: &budget, clock: &clock, seed: 1 };
    vm.start(&script, &terms).unwrap().lua().used_memory()
}

#[test]
fn loaded_scripts_do_not_cause_a_collection_in_each_run() {
    let mut vm = vm();
    // As many scripts as a VM keeps loaded, and more bytes than it may keep as garbage.
    for number in 0..64 {
        let text = format!("{number:050000}").repeat(2);
        assert_eq!(
            run(&mut vm, &format!("local t = {{'{text}'}} return #t[1]")).unwrap(),
            ["100000"]
        );
    }
    let loaded = heap_bytes(&mut vm);
    assert!(loaded > 6_000_000, "{loaded}");
    run(&mut vm, "return #string.rep('garbage', 30000)").unwrap();
    let after = heap_bytes(&mut vm);
    assert!(after > loaded + 200_000, "{after} after {loaded}: it was collected");
}
