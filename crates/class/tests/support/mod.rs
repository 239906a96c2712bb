//! A node: a store that runs the classes of a runtime.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod stores;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use nacre_calls::{EvalRequest, LUA_CLASS};
use nacre_class::{ClassProgram, ClassRuntime, FaultSink, ProgramFault, ProgramLog};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{
    CallReply, ClassCall, ClassName, Error, MethodName, ObjectId, Op, OpResult, Request, Result,
    Store,
};
use nacre_program::{Budget, Limit};
use nacre_rados::RadosEngine;

/// What the sink heard.
#[derive(Default)]
pub struct Heard {
    pub faults: Mutex<Vec<String>>,
    pub lines: Mutex<Vec<String>>,
}

impl FaultSink for Heard {
    fn fault(&self, fault: &ProgramFault<'_>) {
        let ProgramFault { program, version, method, line, error, limit } = fault;
        let limit = limit.map_or("", Limit::as_str);
        let text = format!("{program} {version} {method} {line:?} {} {limit}", error.kind());
        self.faults.lock().unwrap().push(text);
    }

    fn log(&self, line: &ProgramLog<'_>) {
        self.lines.lock().unwrap().push(format!("{} {}", line.level, line.text));
    }
}

pub struct Node {
    pub runtime: Arc<ClassRuntime>,
    pub store: Arc<dyn Store>,
    /// The store, where that is Ceph's engine.
    pub rados: Option<RadosEngine>,
    pub heard: Arc<Heard>,
}

/// The line that marks a program as also made for Ceph's class.
pub const MARK: &str = "--!cls_lua";

/// A budget that a hostile script uses up soon.
pub fn small_budget() -> Budget {
    Budget {
        time: Duration::from_millis(100),
        memory_bytes: 16 * 1024 * 1024,
        output_bytes: 1024 * 1024,
        ..Budget::default()
    }
}

impl Node {
    /// A node whose methods have time enough however busy the machine.
    pub fn new() -> Self {
        Self::with_budget(Budget { time: Duration::from_secs(60), ..small_budget() })
    }

    pub fn with_budget(budget: Budget) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let heard = Arc::new(Heard::default());
        let runtime = ClassRuntime::new(budget, clock.clone()).reporting_to(heard.clone());
        let runtime = Arc::new(runtime);
        let (store, rados) = stores::open(runtime.clone(), clock);
        Self { runtime, store, rados, heard }
    }

    pub fn install(&self, name: &str, version: u64, source: &str) -> Result<()> {
        self.runtime.install(&ClassProgram::new(class(name), version, source))
    }

    /// Runs ops on `data/OBJECT`.
    pub fn submit(&self, object: &str, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        let request = Request::new(id(object), ops)?;
        block_on(self.store.submit(request)).map(|reply| reply.results)
    }

    pub fn call(&self, object: &str, call: ClassCall) -> Result<CallReply> {
        match self.submit(object, vec![Op::Call(call)])?.pop() {
            Some(OpResult::Called(reply)) => Ok(reply),
            other => panic!("a call answered {other:?}"),
        }
    }

    /// Calls the live version of a method.
    pub fn method(
        &self,
        object: &str,
        class: &str,
        method: &str,
        input: &str,
    ) -> Result<CallReply> {
        self.call(object, call(class, method, None, input.to_owned()))
    }

    /// Evaluates a one-off script.
    pub fn eval(
        &self,
        object: &str,
        script: &str,
        handler: &str,
        input: &[u8],
    ) -> Result<CallReply> {
        if stores::MethodHost::here() == stores::MethodHost::ClsLua
            && let Ok(method) = MethodName::new(handler)
            && self.install("eval", 1, &format!("{MARK}\n{script}")).is_ok()
        {
            // Only programs with this mark run in Ceph's class.
            let (class, input) = (class("eval"), Bytes::copy_from_slice(input));
            return self.call(object, ClassCall { class, method, version: None, input });
        }
        let request = EvalRequest {
            script: Bytes::copy_from_slice(script.as_bytes()),
            handler: handler.to_owned(),
            input: Bytes::copy_from_slice(input),
        };
        self.call(object, call(LUA_CLASS, "eval_bufferlist", None, request.to_bufferlist()))
    }

    /// The status of a one-off script, as a Ceph client sees it.
    pub fn status(&self, object: &str, script: &str, handler: &str) -> i32 {
        status(self.eval(object, script, handler, b""))
    }

    /// Runs the body of a handler on an object. Returns the status and the output.
    pub fn body(&self, object: &str, body: &str) -> (i32, String) {
        let script = format!("function h(input, output) {body} end objclass.register(h)");
        match self.eval(object, &script, "h", b"the input") {
            Ok(reply) => (reply.status, String::from_utf8_lossy(&reply.output).into_owned()),
            Err(error) => (error.status(), String::new()),
        }
    }

    pub fn read(&self, object: &str) -> Result<Bytes> {
        match self.submit(object, vec![Op::Read { offset: 0, length: 1 << 20 }])?.pop() {
            Some(OpResult::Data(data)) => Ok(data),
            other => panic!("a read answered {other:?}"),
        }
    }

    pub fn version(&self, object: &str) -> u64 {
        match self.submit(object, vec![Op::Stat]).unwrap().pop() {
            Some(OpResult::Stat(stat)) => stat.version,
            other => panic!("a stat answered {other:?}"),
        }
    }

    /// Keys and values of the whole map, as text.
    pub fn map(&self, object: &str) -> Vec<(String, String)> {
        let (after, prefix) = (Bytes::new(), Bytes::new());
        let range = Op::MapRange { after, prefix, limit: 4096 };
        match self.submit(object, vec![range]).unwrap().pop() {
            Some(OpResult::Range(range)) => range
                .entries
                .iter()
                .map(|e| {
                    (
                        String::from_utf8_lossy(&e.key).into(),
                        String::from_utf8_lossy(&e.value).into(),
                    )
                })
                .collect(),
            other => panic!("a range answered {other:?}"),
        }
    }
}

pub fn status(result: Result<CallReply>) -> i32 {
    result.map_or_else(|error: Error| error.status(), |reply| reply.status)
}

pub fn class(name: &str) -> ClassName {
    ClassName::new(name).unwrap()
}

pub fn id(object: &str) -> ObjectId {
    format!("data/{object}").parse().unwrap()
}

pub fn call(name: &str, method: &str, version: Option<u64>, input: impl Into<Bytes>) -> ClassCall {
    let method = MethodName::new(method).unwrap();
    ClassCall { class: class(name), method, version, input: input.into() }
}

/// Bodies with the status and output each must have, on absent objects.
pub fn check(cases: &[(&str, i32, &str)]) {
    let node = Node::new();
    for (index, (body, status, output)) in cases.iter().enumerate() {
        let got = node.body(&format!("object-{index}"), body);
        assert_eq!((got.0, got.1.as_str()), (*status, *output), "{body}");
    }
}

/// Replaces the stream of an object.
pub fn write(node: &Node, object: &str, data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    node.submit(object, vec![Op::WriteFull { data }]).unwrap();
}
