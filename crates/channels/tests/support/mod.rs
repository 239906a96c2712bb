//! Processes with couriers over one store in memory, in virtual time.

#![allow(dead_code, reason = "each suite uses a part")]

pub mod sabotage;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_brados::Value;
use nacre_calls::{OutputRows, decode_reply, encode_request};
use nacre_channels::{
    Courier, CourierContext, OutboxPage, Pace, SendingLayer, channels_class, read_outbox,
};
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, Random};
use nacre_conformance::{FaultyStore, MemoryStore};
use nacre_object::{
    CallReply, ClassCall, ClassName, EntityName, ErrorKind, Locate, MapEntry, NodeName, ObjectId,
    Op, OpResult, PoolName, Request, Result, Stack, Store, TargetName,
};
use nacre_program::Budget;
use nacre_registry::{CallRules, LiveEntities, Maps, events_class, map_class};
use tokio::time::{Instant, sleep};

use sabotage::{Sabotage, Way};

/// A Brados class: `pass` sends a number to another object, which stores the numbers in the order
/// in which they arrive.
pub const RELAY: &str = include_str!("relay.brados");
/// The library's reference counting.
pub const REFS: &str = include_str!("../../../../programs/class/refs.brados");

/// Deliveries in test time: everything after moments.
pub const PACE: Pace = Pace {
    first_retry: Duration::from_millis(50),
    last_retry: Duration::from_secs(1),
    give_up_after: Duration::from_secs(60),
    idle_after: Duration::from_secs(5),
    sweep_every: Duration::from_secs(2),
    uncertain_for: Duration::from_secs(10),
    trusted_for: Duration::from_secs(20),
    abandoned_after: Duration::from_secs(40),
    forget_every: 1024,
};
/// How long anything may take to happen, in virtual time.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between looks whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Tokio's time.
#[derive(Debug)]
struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now_micros(&self) -> u64 {
        1_000_000_000 + self.0.elapsed().as_micros() as u64
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Where the objects of the system are; all others are on the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    One,
    Two,
}

impl Locate for Targets {
    fn locate(&self, object: &ObjectId) -> TargetName {
        let is_system = object.pool == PoolName::system();
        self.targets().swap_remove(usize::from(is_system && *self == Self::Two))
    }

    fn targets(&self) -> Vec<TargetName> {
        let names: &[&str] = match self {
            Self::One => &["one"],
            Self::Two => &["one", "two"],
        };
        names.iter().map(|name| TargetName::new(name).unwrap()).collect()
    }
}

/// What a process serves.
struct ServedObjects {
    targets: Targets,
    served: Vec<TargetName>,
    is_alone: bool,
}

/// What outlives processes.
pub struct World {
    pub memory: MemoryStore,
    clock: Arc<dyn Clock>,
    classes: Arc<ClassRuntime>,
}

/// A process: an engine's stages and a courier.
pub struct Process {
    pub faults: FaultyStore,
    pub store: Arc<Stack>,
    pub courier: Courier,
    pub maps: Maps,
    pub entities: Arc<LiveEntities>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.courier.stop();
    }
}

impl World {
    /// An empty one with the classes `relay` and `refs`.
    pub fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock(Instant::now()));
        let classes = Arc::new(ClassRuntime::new(Budget::default(), clock.clone()));
        for class in [map_class(), events_class(), channels_class()] {
            classes.register_native(class).unwrap();
        }
        for (name, source) in [("relay", RELAY), ("refs", REFS)] {
            let name = ClassName::new(name).unwrap();
            classes.install(&ClassProgram::new(name, 1, source)).unwrap();
        }
        Self { memory: MemoryStore::new(classes.clone(), clock.clone()), clock, classes }
    }

    /// A process that is not alone.
    pub fn process(&self, seed: u64) -> Process {
        self.start(seed, PACE, false)
    }

    pub fn start(&self, seed: u64, pace: Pace, is_alone: bool) -> Process {
        let faults = FaultyStore::over_watched(Arc::new(self.memory.clone()));
        self.start_on(Arc::new(faults.clone()), faults, seed, pace, is_alone)
    }

    /// Two processes, each alone with one of two targets.
    pub fn one_for_each_target(&self) -> [Process; 2] {
        [0, 1].map(|number| {
            let faults = FaultyStore::over_watched(Arc::new(self.memory.clone()));
            let served = vec![Targets::Two.targets().swap_remove(number)];
            let place = ServedObjects { targets: Targets::Two, served, is_alone: true };
            self.start_at(Arc::new(faults.clone()), faults, number as u64, PACE, place)
        })
    }

    /// A process whose requests take a while, perhaps with a planted bug.
    pub fn far_process(&self, seed: u64, pace: Pace, sabotage: Option<Sabotage>) -> Process {
        let faults = FaultyStore::over_watched(Arc::new(self.memory.clone()));
        let way = Way::new(Arc::new(faults.clone()), seed, sabotage);
        self.start_on(Arc::new(way), faults, seed, pace, false)
    }

    fn start_on(
        &self,
        objects: Arc<dyn Store>,
        faults: FaultyStore,
        seed: u64,
        pace: Pace,
        is_alone: bool,
    ) -> Process {
        let place =
            ServedObjects { targets: Targets::One, served: Targets::One.targets(), is_alone };
        self.start_at(objects, faults, seed, pace, place)
    }

    fn start_at(
        &self,
        objects: Arc<dyn Store>,
        faults: FaultyStore,
        seed: u64,
        pace: Pace,
        ServedObjects { targets, served, is_alone }: ServedObjects,
    ) -> Process {
        let courier = Courier::new(self.clock.clone(), Random::seeded(seed), pace);
        let engine = Arc::new(faults.clone());
        let classes = self.classes.clone();
        let sends = Arc::new(move |call: &ClassCall| classes.sends(call));
        let store = Arc::new(
            Stack::without_watches(objects)
                .wrapped_by(|next| SendingLayer::new(next, sends, courier.clone())),
        );
        let maps = Maps::new(store.clone(), engine.clone());
        let node = NodeName::new("node").unwrap();
        let entities = Arc::new(LiveEntities::follow(&maps, node.clone(), CallRules::default()));
        courier.start(CourierContext {
            store: store.clone(),
            watch: engine,
            locate: Arc::new(targets),
            events: maps.events().clone(),
            entities: Arc::clone(&entities),
            node,
            served: served.into_iter().collect(),
            is_alone,
        });
        Process { faults, store, courier, maps, entities }
    }

    /// What waits in an object, and what was given up.
    pub async fn outbox(&self, object: &str) -> OutboxPage {
        match read_outbox(&self.memory, &object.parse().unwrap()).await {
            Ok(page) => page,
            Err(error) if error.kind() == ErrorKind::NotFound => OutboxPage::default(),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn exists(&self, object: &str) -> bool {
        submit(&self.memory, object, vec![Op::Stat]).await.is_ok()
    }

    /// What a receiver has, in the order in which it came: from whom, and which number.
    pub async fn received(&self, object: &str) -> Vec<(String, i64)> {
        let rows = call(&self.memory, object, "relay", "list", &[Value::Int(0)]).await.unwrap();
        let rows = rows.into_iter().flat_map(|(_, rows)| rows);
        rows.map(|row| match &row[..] {
            [_, Value::Bytes(from), Value::Int(number)] => {
                (String::from_utf8(from.clone()).unwrap(), *number)
            }
            other => panic!("{other:?}"),
        })
        .collect()
    }

    /// The numbers that a receiver has.
    pub async fn numbers(&self, object: &str) -> Vec<i64> {
        self.received(object).await.into_iter().map(|(_, number)| number).collect()
    }

    /// How many marks there are.
    pub async fn marks(&self) -> usize {
        let mut marks = 0;
        for ledger in 0..64 {
            let object = format!("nacre.system/channels/{ledger:02}");
            let all = Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: 4096 };
            if let Ok(results) = submit(&self.memory, &object, vec![all]).await
                && let [OpResult::Range(range)] = &results[..]
            {
                marks += range.entries.len();
            }
        }
        marks
    }

    /// Whether nothing waits in an object.
    pub async fn is_empty(&self, object: &str) -> bool {
        let outbox = self.outbox(object).await;
        outbox.waiting.is_empty() && outbox.resent.is_empty()
    }

    /// Waits until nothing waits in an object.
    pub async fn until_empty(&self, object: &str) {
        until(async || self.is_empty(object).await).await;
    }

    /// How many times an object forgot senders: the second field of `@inbox`, here a varint below
    /// 128.
    pub async fn generation(&self, object: &str) -> u64 {
        let keys = vec![Bytes::from_static(b"@inbox")];
        match &submit(&self.memory, object, vec![Op::MapGet { keys }]).await.unwrap()[..] {
            [OpResult::Values(values)] => match values[0].as_deref() {
                Some([8, _, 16, generation] | [16, generation]) => u64::from(*generation),
                _ => 0,
            },
            other => panic!("{other:?}"),
        }
    }

    /// The notes of senders in an object.
    pub async fn notes(&self, object: &str) -> usize {
        let prefix = Bytes::from_static(b"@inbox.");
        let all = Op::MapRange { after: Bytes::new(), prefix, limit: 4096 };
        match &submit(&self.memory, object, vec![all]).await.unwrap()[..] {
            [OpResult::Range(range)] => range.entries.len(),
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until something is so.
///
/// # Panics
/// If it does not come to be.
pub async fn until(is_so: impl AsyncFnMut() -> bool) {
    assert!(comes_to_be(is_so).await, "it did not come to be");
}

/// Waits until something is so; returns whether it came to be.
pub async fn comes_to_be(mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so().await {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        sleep(LOOK_AGAIN).await;
    }
    true
}

/// Whether a request calls a method of the class `channels`.
pub fn calls(request: &Request, method: &str) -> bool {
    request.ops.iter().any(|op| {
        matches!(op, Op::Call(call)
            if call.class.as_str() == "channels" && call.method.as_str() == method)
    })
}

pub async fn submit(store: &dyn Store, object: &str, ops: Vec<Op>) -> Result<Vec<OpResult>> {
    let request = Request::new(object.parse()?, ops)?;
    Ok(store.submit(request).await?.results)
}

pub fn call_op(class: &str, method: &str, row: &[Value]) -> Op {
    Op::Call(ClassCall {
        class: class.parse().unwrap(),
        method: method.parse().unwrap(),
        version: None,
        input: encode_request(row).into(),
    })
}

/// Calls a method for somebody.
pub async fn call_as(
    store: &dyn Store,
    source: &str,
    object: &str,
    class: &str,
    method: &str,
    row: &[Value],
) -> Result<Vec<OutputRows>> {
    let mut request = Request::new(object.parse()?, vec![call_op(class, method, row)])?;
    request.header.source = EntityName::new(source)?;
    match store.submit(request).await?.results.pop() {
        Some(OpResult::Called(CallReply { output, .. })) => Ok(decode_reply(&output).unwrap()),
        other => panic!("a call answered {other:?}"),
    }
}

pub async fn call(
    store: &dyn Store,
    object: &str,
    class: &str,
    method: &str,
    row: &[Value],
) -> Result<Vec<OutputRows>> {
    call_as(store, "local", object, class, method, row).await
}

impl Process {
    /// Has an object pass a number on to another, in the pool `data` both.
    pub async fn pass(&self, from: &str, to: &str, number: i64) -> Result<()> {
        self.pass_as("local", from, to, number).await
    }

    pub async fn pass_as(&self, source: &str, from: &str, to: &str, number: i64) -> Result<()> {
        let row = [Value::text(to), Value::text(from), Value::Int(number)];
        let object = format!("data/{from}");
        call_as(&*self.store, source, &object, "relay", "pass", &row).await.map(drop)
    }

    pub async fn relay(&self, object: &str, method: &str, row: &[Value]) -> Result<()> {
        call(&*self.store, object, "relay", method, row).await.map(drop)
    }

    pub async fn refs(&self, object: &str, method: &str, tag: &str) -> Result<()> {
        call(&*self.store, object, "refs", method, &[Value::text(tag)]).await.map(drop)
    }
}

/// Sets a key of an object's map, past its class.
pub async fn set_key(store: &dyn Store, object: &str, key: &str, value: Vec<u8>) {
    let entry = MapEntry { key: Bytes::copy_from_slice(key.as_bytes()), value: value.into() };
    submit(store, object, vec![Op::MapSet { entries: vec![entry] }]).await.unwrap();
}
