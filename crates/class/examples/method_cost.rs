//! Measures how much more CPU time a method takes than the native op that does the same.
//!
//! `cargo run --release -p nacre-class --example method_cost [PART OF A LABEL]`
//!
//! Each figure is CPU time on one thread. The objects are kept in a map in memory. So the figures
//! leave out the work of an engine, above all commit and sync.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use nacre_brados::Value;
use nacre_calls::encode_request;
use nacre_calls::{EvalRequest, LUA_CLASS, encode_batch};
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{
    CallContext, CallReply, ClassCall, ClassHost, ClassName, Error, MapEntry, MapRange, MethodName,
    ObjectStat, ObjectView, Result,
};
use nacre_object::{MethodAccess, NativeClass};
use nacre_program::Budget;

const CALLS: u32 = 100_000;
/// Writes of a batch, as many as appends to a log share on a busy disk.
const BATCH: u64 = 16;
/// Fewer of those: each adds entries.
const BATCHES: u32 = 10_000;

const ONE: &str = "
function set(input) objclass.map_set_val('key', input) end
objclass.register(set)
";

const LOG_LIKE: &str = "
local function position_of(input)
    local epoch, position = string.unpack('<I4I4', input:str())
    return epoch, string.format('%016x', position)
end

function set(input)
    local epoch, key = position_of(input)
    local sealed = objclass.map_get('epoch')
    if sealed and epoch < tonumber(sealed:str()) then return -objclass.ESTALE end
    if objclass.map_get(key) then return -objclass.EEXIST end
    objclass.map_set_val('key', input)
end
objclass.register(set)
";

fn main() -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let runtime = ClassRuntime::new(Budget::default(), clock.clone());
    runtime.register_native(NativeClass::new(ClassName::new("native")?).method(
        "set",
        MethodAccess::ReadWrite,
        set,
    ))?;
    let nine: String =
        (0..9).map(|i| format!("function m{i}() end objclass.register(m{i})\n")).collect();
    for (name, source) in [
        ("one", ONE.to_owned()),
        ("ten", format!("{ONE}{nine}")),
        ("log-like", LOG_LIKE.to_owned()),
        ("loop", "function set() for i = 1, 1000 do end end objclass.register(set)".to_owned()),
        ("log-by-hand", include_str!("../../../programs/class/log.lua").to_owned()),
        ("log-generated", include_str!("../../../programs/class/log.brados").to_owned()),
        ("raise", "function set() pcall(objclass.stat) end objclass.register(set)".to_owned()),
    ] {
        runtime.install(&ClassProgram::new(ClassName::new(name)?, 1, source))?;
    }
    let input = Bytes::from_static(&[7; 160]);
    let context = CallContext { source: "client.a".parse()?, now_micros: 0 };
    let mut view = Map::default();
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let measure_some = |calls: u32, label: &str, run: &mut dyn FnMut() -> Result<()>| {
        if !label.contains(&wanted) {
            return Ok(());
        }
        for _ in 0..calls / 10 {
            run()?;
        }
        let before = clock.thread_time();
        for _ in 0..calls {
            run()?;
        }
        let took = clock.thread_time().zip(before).map(|(after, before)| after - before);
        let nanos = took.unwrap_or_default().as_nanos() / u128::from(calls);
        println!("{label:<48} {nanos:>6} ns");
        Ok(())
    };
    let measure = |label: &str, run: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        measure_some(CALLS, label, run)
    };
    measure("the native op (map_set of 160 bytes)", &mut || view.map_set(b"key", input.clone()))?;
    for (label, class) in [
        ("a native class's method doing it", "native"),
        ("a Luau method doing it", "one"),
        ("the same, in a class of ten methods", "ten"),
        ("a log-like append: unpack, 2 gets, 1 set", "log-like"),
        ("a method that loops 1,000 times", "loop"),
        ("a method that catches a storage error", "raise"),
    ] {
        let call = call(class, "set", &input)?;
        measure(label, &mut || runtime.call(&call, &mut view, &context).map(|_| ()))?;
    }
    for (label, side, bytes) in [
        ("a log's batch of 16 writes of 128 B, by log.lua", Side::ByHand, 128),
        ("the same batch, by log.brados", Side::Generated, 128),
        ("a log's batch of 16 writes of 4 KiB, by log.lua", Side::ByHand, 4096),
        ("the same batch of 4 KiB, by log.brados", Side::Generated, 4096),
    ] {
        let mut view = Map::default();
        runtime.call(&side.seal()?, &mut view, &context)?;
        let mut first = 0;
        measure_some(BATCHES, label, &mut || {
            first += BATCH;
            // What was written is not what is measured.
            view.entries.retain(|key, _| key.starts_with(b"@"));
            runtime.call(&side.writes(first, bytes)?, &mut view, &context).map(|_| ())
        })?;
    }
    for (label, side) in [
        ("a fill of a log, by log.lua", Side::ByHand),
        ("the same fill, by log.brados", Side::Generated),
    ] {
        let mut view = Map::default();
        runtime.call(&side.seal()?, &mut view, &context)?;
        let fill = side.fill(7)?;
        measure(label, &mut || runtime.call(&fill, &mut view, &context).map(|_| ()))?;
    }
    let eval = EvalRequest { script: ONE.into(), handler: "set".into(), input: input.clone() };
    let call = call(LUA_CLASS, "eval_bufferlist", &eval.to_bufferlist())?;
    measure("a one-off script doing it", &mut || {
        runtime.call(&call, &mut view, &context).map(|_| ())
    })
}

fn call(class: &str, method: &str, input: &Bytes) -> Result<ClassCall> {
    Ok(ClassCall {
        class: ClassName::new(class)?,
        method: MethodName::new(method)?,
        version: None,
        input: input.clone(),
    })
}

/// Which of the log's classes.
#[derive(Clone, Copy)]
enum Side {
    ByHand,
    Generated,
}

impl Side {
    fn seal(self) -> Result<ClassCall> {
        match self {
            Self::ByHand => {
                call("log-by-hand", "seal", &Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0]))
            }
            Self::Generated => {
                call("log-generated", "seal", &encode_request(&[Value::Int(1)]).into())
            }
        }
    }

    fn fill(self, position: u64) -> Result<ClassCall> {
        match self {
            Self::ByHand => {
                let input = [1_u64, position].map(u64::to_le_bytes).concat();
                call("log-by-hand", "fill", &input.into())
            }
            Self::Generated => {
                let row = [Value::Int(1), Value::Int(position as i64)];
                call("log-generated", "fill", &encode_request(&row).into())
            }
        }
    }

    /// A batch of writes from a position on.
    fn writes(self, first: u64, bytes: usize) -> Result<ClassCall> {
        let positions = first..first + BATCH;
        let data = vec![7; bytes];
        match self {
            Self::ByHand => {
                let mut input = 1_u64.to_le_bytes().to_vec();
                input.extend((BATCH as u32).to_le_bytes());
                for position in positions {
                    input.extend(position.to_le_bytes());
                    input.extend((data.len() as u32).to_le_bytes());
                    input.extend(&data);
                }
                call("log-by-hand", "write_batch", &input.into())
            }
            Self::Generated => {
                let data = || Value::Bytes(data.clone());
                let row = |position| [Value::Int(1), Value::Int(position as i64), data()];
                let requests: Vec<_> = positions.map(|at| encode_request(&row(at))).collect();
                call("log-generated", "write.batch", &encode_batch(u32::MAX, &requests))
            }
        }
    }
}

fn set(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    view.map_set(b"key", input)?;
    Ok(CallReply::default())
}

/// An object that is its map alone.
#[derive(Default)]
struct Map {
    entries: BTreeMap<Vec<u8>, Bytes>,
    header: Bytes,
}

fn without<T>() -> Result<T> {
    Err(Error::unsupported("this object is its map alone"))
}

impl ObjectView for Map {
    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.entries.get(key).cloned())
    }
    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        self.entries.insert(key.to_vec(), value);
        Ok(())
    }
    fn exists(&mut self) -> Result<bool> {
        Ok(!self.entries.is_empty() || !self.header.is_empty())
    }
    fn stat(&mut self) -> Result<ObjectStat> {
        without()
    }
    fn version(&mut self) -> Result<u64> {
        without()
    }
    fn create(&mut self, _: bool) -> Result<()> {
        without()
    }
    fn remove(&mut self) -> Result<()> {
        without()
    }
    fn read(&mut self, _: u64, _: u64) -> Result<Bytes> {
        without()
    }
    fn write(&mut self, _: u64, _: Bytes) -> Result<()> {
        without()
    }
    fn write_full(&mut self, _: Bytes) -> Result<()> {
        without()
    }
    fn append(&mut self, _: Bytes) -> Result<u64> {
        without()
    }
    fn truncate(&mut self, _: u64) -> Result<()> {
        without()
    }
    fn zero(&mut self, _: u64, _: u64) -> Result<()> {
        without()
    }
    fn attribute(&mut self, _: &str) -> Result<Option<Bytes>> {
        without()
    }
    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        without()
    }
    fn set_attribute(&mut self, _: &str, _: Bytes) -> Result<()> {
        without()
    }
    fn remove_attribute(&mut self, _: &str) -> Result<()> {
        without()
    }
    fn map_remove(&mut self, _: &[u8]) -> Result<()> {
        without()
    }
    fn map_clear(&mut self) -> Result<()> {
        without()
    }
    fn map_range(&mut self, _: &[u8], _: &[u8], _: usize) -> Result<MapRange> {
        without()
    }
    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        let last = self.entries.last_key_value().filter(|(key, _)| key.starts_with(prefix));
        Ok(last.map(|(key, value)| MapEntry { key: key.clone().into(), value: value.clone() }))
    }
    fn map_header(&mut self) -> Result<Bytes> {
        Ok(self.header.clone())
    }
    fn set_map_header(&mut self, value: Bytes) -> Result<()> {
        self.header = value;
        Ok(())
    }
}
