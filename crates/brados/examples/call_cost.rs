//! What a generated class costs beside one written by hand: the log's storage interface, in process, on
//! the in-memory store. `cargo run --release -p nacre-brados --example call_cost`
//!
//! Also how long a program of 200 lines takes to compile.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use nacre_brados::{Value, compile, encode_request};
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::MemoryStore;
use nacre_object::{ClassCall, ClassName, MethodName, Op, Request, Result, Store};
use nacre_script::Budget;

const GENERATED: &str = include_str!("../../../programs/class/log.brados");
const BY_HAND: &str = include_str!("../../../programs/class/log.lua");
const ROUNDS: usize = 3;
/// The store copies an object that is written to, so there are few entries.
const CALLS: i64 = 500;
const DATA_BYTES: usize = 128;
const PROGRAM_LINES: usize = 200;

struct Subject {
    store: MemoryStore,
    clock: Arc<dyn Clock>,
}

impl Subject {
    fn new(source: &str) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let classes = Arc::new(ClassRuntime::new(Budget::default(), clock.clone()));
        classes.install(&ClassProgram::new(ClassName::new("log")?, 1, source))?;
        Ok(Self { store: MemoryStore::new(classes, clock.clone()), clock })
    }

    fn call(&self, method: &str, input: Vec<u8>) -> Result<()> {
        let (class, method) = (ClassName::new("log")?, MethodName::new(method)?);
        let call = Op::Call(ClassCall { class, method, version: None, input: Bytes::from(input) });
        block_on(self.store.submit(Request::new("data/o".parse()?, vec![call])?)).map(drop)
    }

    /// Time of a call, the calls one after another.
    fn measure(&self, method: &str, input: impl Fn(i64) -> Vec<u8>, from: i64) -> Result<Duration> {
        let before = self.clock.monotonic();
        for position in from..from + CALLS {
            self.call(method, input(position))?;
        }
        Ok((self.clock.monotonic() - before) / CALLS as u32)
    }
}

fn row(position: i64, with_data: bool) -> Vec<u8> {
    let mut row = vec![Value::Int(1), Value::Int(position)];
    if with_data {
        row.push(Value::Bytes(vec![b'x'; DATA_BYTES]));
    }
    encode_request(&row)
}

fn by_hand(position: i64, with_data: bool) -> Vec<u8> {
    let data = if with_data { vec![b'x'; DATA_BYTES] } else { vec![] };
    [&1_u64.to_le_bytes()[..], &(position as u64).to_le_bytes(), &data].concat()
}

fn main() -> Result<()> {
    let (generated, hand_written) = (Subject::new(GENERATED)?, Subject::new(BY_HAND)?);
    generated.call("seal", encode_request(&[Value::Int(1)]))?;
    hand_written.call("seal", 1_u64.to_le_bytes().to_vec())?;
    for round in 0..ROUNDS as i64 {
        for (method, with_data) in [("write", true), ("read", false)] {
            let ours = generated.measure(method, |at| row(at, with_data), round * CALLS)?;
            let other = hand_written.measure(method, |at| by_hand(at, with_data), round * CALLS)?;
            let ratio = other.as_secs_f64() / ours.as_secs_f64();
            println!("{method}: generated {ours:?}, by hand {other:?}, ratio {ratio:.2}");
        }
    }
    let clock = SystemClock::default();
    let rules = GENERATED.trim_end().to_owned();
    let more = PROGRAM_LINES.saturating_sub(rules.lines().count() + 2);
    let filler = "  ret <= op{|o| [-22] if o.epoch <= 0 and o.pos > 17}\n".repeat(more);
    let program = format!("{rules}\nbloom :more do\n{filler}end\n");
    let before = clock.monotonic();
    let compiled =
        compile(&program).map_err(|error| nacre_object::Error::invalid(error.to_string()))?;
    let took = clock.monotonic() - before;
    let lines = program.lines().count();
    println!("{lines} lines compile in {took:?} to {} bytes of Lua", compiled.class.lua.len());
    Ok(())
}
