//! Fuzzes the inputs of the registry's classes, the content of their objects, and the entries of
//! maps.

use std::sync::Arc;

use bytes::Bytes;
use nacre_class::ClassRuntime;
use nacre_clock::{ManualClock, Random};
use nacre_conformance::MemoryStore;
use nacre_fuzz::fuzz;
use nacre_object::{
    ClassCall, ClassName, Demand, ErrorKind, MapEntry, MethodName, ObjectId, Op, Request, Result,
    Store,
};
use nacre_program::Budget;

use crate::entities::{CallRules, Entity, Grant, Grants};
use crate::maps::commit_input;
use crate::programs::{ProgramId, ProgramRecord, StatusReport};
use crate::{events_class, map_class};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// How many inputs are tried on one object before a new object is used. So most inputs meet an
/// object that earlier inputs have changed.
const INPUTS_AN_OBJECT: u64 = 64;

struct Objects {
    store: MemoryStore,
    runtime: tokio::runtime::Runtime,
    calls: u64,
}

impl Objects {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let classes = ClassRuntime::new(Budget::default(), clock.clone());
        classes.register_native(map_class()).unwrap();
        classes.register_native(events_class()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { store: MemoryStore::new(Arc::new(classes), clock), runtime, calls: 0 }
    }

    /// Returns the object for the next input. Removes it after every [`INPUTS_AN_OBJECT`] inputs,
    /// because a long run tries millions of inputs.
    fn next(&mut self, name: &str) -> ObjectId {
        let object: ObjectId = format!("nacre.system/{name}").parse().unwrap();
        if self.calls.is_multiple_of(INPUTS_AN_OBJECT) {
            // There is none at first.
            drop(self.run(&object, Op::Remove));
        }
        self.calls += 1;
        object
    }

    fn run(&self, object: &ObjectId, op: Op) -> Result<()> {
        let request = Request::new(object.clone(), vec![op])?;
        // The check of an entity's rights also reads the input, and must not panic either. Check it
        // for an entity with one grant of each kind.
        let grants: Grants = ["rw map=a*", "rw program=class/*", "r events"]
            .iter()
            .map(|grant| grant.parse::<Grant>().unwrap())
            .collect();
        grants.allows(Demand::Request(&request), CallRules::default());
        self.runtime.block_on(self.store.submit(request)).map(drop)
    }

    /// Calls a method. Returns whether the method accepted the input. Panics if the method fails
    /// with `Fault`, because a native class must never do that.
    fn call(&self, object: &ObjectId, class: &str, method: &str, input: &[u8]) -> bool {
        let call = ClassCall {
            class: ClassName::new(class).unwrap(),
            method: MethodName::new(method).unwrap(),
            version: None,
            input: Bytes::copy_from_slice(input),
        };
        let outcome = self.run(object, Op::Call(call));
        if let Err(error) = &outcome {
            assert_ne!(error.kind(), ErrorKind::Fault, "{error}");
        }
        outcome.is_ok()
    }
}

/// The first byte chooses among so many.
fn choice<'a, T>(input: &'a [u8], choices: &[T]) -> Option<(usize, &'a [u8])> {
    let (first, rest) = input.split_first()?;
    Some((usize::from(*first) % choices.len(), rest))
}

#[test]
fn fuzz_inputs_of_the_map_class() {
    const METHODS: [&str; 6] = ["commit", "get", "history", "triggers", "triggers-done", "bind"];
    let mut objects = Objects::new();
    let commit = [&[0], &commit_input("a", &["a", "class/b"])[..]].concat();
    let samples = [commit, vec![1], vec![2], vec![3], vec![4], vec![5]];
    fuzz(CRATE, "map_calls", &samples, |input| {
        let Some((method, input)) = choice(input, &METHODS) else { return false };
        let object = objects.next("map/a");
        objects.call(&object, "map", METHODS[method], input)
    });
}

#[test]
fn fuzz_inputs_of_the_events_class() {
    const METHODS: [&str; 2] = ["append", "read"];
    let mut objects = Objects::new();
    // An event of 3 bytes' text; a page after 1.
    let samples = [b"\x00\x0a\x05\x32\x03abc".to_vec(), b"\x01\x08\x01\x10\x02".to_vec()];
    fuzz(CRATE, "events_calls", &samples, |input| {
        let Some((method, input)) = choice(input, &METHODS) else { return false };
        let object = objects.next("events");
        objects.call(&object, "events", METHODS[method], input)
    });
}

#[test]
fn fuzz_stored_objects_of_maps() {
    let mut objects = Objects::new();
    let mut random = Random::seeded(3);
    let mut commit = commit_input("s", &["a"]).to_vec();
    commit.truncate(64);
    // The second sample is a head as the class writes it: epoch 1, one epoch kept.
    let samples = [vec![], b"\x08\x01\x10\x01\x18\x01\x28\x01\x30\x01".to_vec()];
    fuzz(CRATE, "stored_maps", &samples, |input| {
        let object = objects.next("map/s");
        let entry = |key: &[u8]| MapEntry {
            key: Bytes::copy_from_slice(key),
            value: Bytes::copy_from_slice(input),
        };
        let stored = match random.below(3) {
            0 => Op::MapSetHeader { value: Bytes::copy_from_slice(input) },
            1 => Op::MapSet { entries: vec![entry(b"h/\0\0\0\0\0\0\0\x01")] },
            _ => Op::MapSet { entries: vec![entry(b"o/\0\0\0\0\0\0\0\x01"), entry(b"t/x")] },
        };
        objects.run(&object, stored).unwrap();
        let read = ["get", "history", "triggers"];
        let read = read.iter().filter(|method| objects.call(&object, "map", method, b"")).count();
        objects.call(&object, "map", "commit", &commit) && read == 3
    });
}

#[test]
fn fuzz_entries_of_maps() {
    let grants = ["admin", "rw pool=data prefix=a b", "x pool=d class=c method=m", "r events"];
    let samples = grants.map(|grant| grant.as_bytes().to_vec());
    fuzz(CRATE, "grants", &samples, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok(grant) = text.parse::<Grant>() else { return false };
        assert_eq!(grant.to_string().parse::<Grant>().unwrap(), grant);
        true
    });
    let report = StatusReport { incarnation: 1, activation: 3, live: Some(2), failed: None };
    let samples = [
        ProgramRecord::default().to_value().to_vec(),
        report.to_value().to_vec(),
        b"class/counter".to_vec(),
    ];
    fuzz(CRATE, "entries", &samples, |input| {
        let entity = Entity::parse("alice", input).is_ok();
        let program = ProgramRecord::parse("class/a", input, 1).is_ok();
        let status = StatusReport::parse("n/class/a", input).is_ok();
        let id = std::str::from_utf8(input).is_ok_and(|text| text.parse::<ProgramId>().is_ok());
        entity || program || status || id
    });
}
