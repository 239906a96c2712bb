//! Fuzzes sources of programs and one-off scripts.
//!
//! A malformed program must be refused, its budget must end an endless one, and neither may cause a
//! panic.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::MemoryStore;
use nacre_fuzz::{fuzz, fuzz_slow};
use nacre_object::{ClassCall, ClassName, MethodName, Op, Request, Result, Store};
use nacre_program::Budget;

use crate::{ClassProgram, ClassRuntime, check_program};
use nacre_calls::{EVAL_BUFFERLIST, EVAL_JSON, EvalRequest, LUA_CLASS};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// How many inputs a short run tries if each is compiled and run.
const PROGRAMS_SHORT_RUN: u64 = 5_000;
/// The time budget of a run. A mutated program may use all of it.
const RUN_TIME: Duration = Duration::from_millis(20);
/// No program may take longer than this, even on a busy machine: it is many budgets.
const MAX_TIME: Duration = Duration::from_secs(20);

const PROGRAMS: [&str; 2] = [
    include_str!("../../../programs/class/counter.lua"),
    include_str!("../../../programs/class/log.lua"),
];

struct Node {
    clock: Arc<dyn Clock>,
    classes: Arc<ClassRuntime>,
    store: MemoryStore,
}

impl Node {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let budget = Budget { time: RUN_TIME, memory_bytes: 16 * 1024 * 1024, ..Budget::default() };
        let classes = Arc::new(ClassRuntime::new(budget, clock.clone()));
        let store = MemoryStore::new(classes.clone(), clock.clone());
        Self { clock, classes, store }
    }

    fn call(&self, class: &str, method: &MethodName, input: Bytes) -> Result<()> {
        let (class, method) = (ClassName::new(class)?, method.clone());
        let call = Op::Call(ClassCall { class, method, version: None, input });
        let request = Request::new("data/o".parse()?, vec![call])?;
        block_on(self.store.submit(request)).map(drop)
    }

    fn evaluate(&self, method: &str, input: Bytes) -> bool {
        self.call(LUA_CLASS, &MethodName::new(method).unwrap(), input).is_ok()
    }

    /// What `run` answers, which it does in time.
    fn in_time<T>(&self, run: impl FnOnce() -> T) -> T {
        let started = self.clock.monotonic();
        let answer = run();
        assert!(self.clock.monotonic() - started < MAX_TIME, "it went on past its budget");
        answer
    }
}

fn sample() -> EvalRequest {
    let script = "function h(input, output) output:append(input:str()) end objclass.register(h)";
    EvalRequest { script: script.into(), handler: "h".into(), input: "in\n\u{1}".into() }
}

#[test]
fn fuzz_encodings_of_one_off_scripts() {
    let of = |which: u8, bytes: Bytes| [&[which], &bytes[..]].concat();
    let request = sample();
    let samples = [of(0, request.to_json().unwrap()), of(1, request.to_bufferlist())];
    fuzz(CRATE, "evals", &samples, |input| {
        let Some((which, rest)) = input.split_first() else { return false };
        let decoded = match which % 2 {
            0 => EvalRequest::from_json(rest),
            _ => EvalRequest::from_bufferlist(Bytes::copy_from_slice(rest)),
        };
        let Ok(request) = decoded else { return false };
        assert_eq!(EvalRequest::from_bufferlist(request.to_bufferlist()).unwrap(), request);
        if let Ok(json) = request.to_json() {
            assert_eq!(EvalRequest::from_json(&json).unwrap(), request);
        }
        true
    });
}

#[test]
fn fuzz_one_off_scripts() {
    let node = Node::new();
    let samples = [sample().script.to_vec(), b"local b = bufferlist.new() b:append('x')".to_vec()];
    fuzz_slow(CRATE, "scripts", PROGRAMS_SHORT_RUN, &samples, |input| {
        let request = EvalRequest { script: Bytes::copy_from_slice(input), ..sample() };
        let has_handler = input.windows(2).any(|two| two == b"h(");
        let handler = if has_handler { "h" } else { "" };
        let request = EvalRequest { handler: handler.into(), ..request };
        let json = request.to_json();
        node.in_time(|| {
            json.is_ok_and(|json| node.evaluate(EVAL_JSON, json))
                | node.evaluate(EVAL_BUFFERLIST, request.to_bufferlist())
        })
    });
}

#[test]
fn fuzz_sources_of_programs() {
    let node = Node::new();
    let name = ClassName::new("mutated").unwrap();
    let samples = PROGRAMS.map(|source| source.as_bytes().to_vec());
    fuzz_slow(CRATE, "programs", PROGRAMS_SHORT_RUN, &samples, |input| {
        let Ok(source) = std::str::from_utf8(input) else { return false };
        let checked = node.in_time(|| check_program(source, &node.clock));
        // A refused program has an error with a reason, in a form for a terminal.
        let Ok(checked) = checked.map_err(|error| error.to_string()) else { return false };
        let installed = node.classes.install(&ClassProgram::new(name.clone(), 1, source));
        assert!(installed.is_ok(), "what passed the check is installed: {installed:?}");
        for (method, _) in checked.methods {
            for bytes in [&b""[..], &[1; 8], &[2; 20]] {
                let input = Bytes::from_static(bytes);
                let _ = node.in_time(|| node.call(name.as_str(), &method, input));
            }
        }
        true
    });
}
