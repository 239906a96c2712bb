//! Fuzzes the requests to a log's objects, their answers, and what the objects store.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::ManualClock;
use nacre_conformance::MemoryStore;
use nacre_fuzz::{fuzz, fuzz_slow};
use nacre_object::{
    ClassCall, ClassName, ErrorKind, MethodName, ObjectId, Op, OpResult, Request, Store,
};
use nacre_program::Budget;

use super::entry::EntryState;
use super::header::ObjectHeader;
use super::packed::*;
use super::{NATIVE_CLASS, PROGRAM_CLASS, log_class};
use crate::codec::Decoder;
use crate::record;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// Inputs of a short run where each is two calls.
const CALLS_SHORT_RUN: u64 = 5_000;
/// How many inputs one object gets. They are enough that some inputs meet what others have left.
const INPUTS_AN_OBJECT: u64 = 64;
const PROGRAM: &str = include_str!("../../../../programs/class/log.lua");

#[test]
fn fuzz_inputs_of_storage_methods() {
    let of = |method: u8, input: Bytes| [&[method], &input[..]].concat();
    let samples = [
        of(0, encode_epoch(7)),
        of(1, encode_position(7, 1)),
        of(3, encode_write_batch(7, &[(1, &Bytes::from_static(b"abc"))])),
        of(4, encode_fill_batch(7, &[1, 2])),
        of(5, encode_read_batch(7, 100, &[1, 2])),
    ];
    fuzz(CRATE, "storage_inputs", &samples, |input| {
        let Some((method, rest)) = input.split_first() else { return false };
        let rest = Bytes::copy_from_slice(rest);
        match method % 6 {
            0 => decode_epoch(rest).is_ok(),
            1 => decode_position(rest).is_ok(),
            2 => decode_write(rest).is_ok(),
            3 => decode_write_batch(rest).is_ok(),
            4 => decode_fill_batch(rest).is_ok(),
            _ => decode_read_batch(rest).is_ok(),
        }
    });
}

#[test]
fn fuzz_answers_entries_and_headers_of_storage() {
    let mut entry = BytesMut::new();
    EntryState::Data(Bytes::from_static(b"abc")).encode(&mut entry);
    let of = |what: u8, bytes: &[u8]| [&[what], bytes].concat();
    let samples = [of(0, &entry), of(2, &[0; 8])];
    fuzz(CRATE, "storage_answers", &samples, |input| {
        let Some((what, rest)) = input.split_first() else { return false };
        let rest = Bytes::copy_from_slice(rest);
        match what % 6 {
            0 => EntryState::decode(&mut Decoder::new(rest)).is_ok(),
            1 => decode_states(rest, 3).is_ok(),
            2 => decode_statuses(rest, 2).is_ok(),
            3 => decode_maximum(rest).is_ok(),
            4 => ObjectHeader::decode(rest).is_ok(),
            _ => record::decode(rest, 1).is_ok(),
        }
    });
}

/// An object of either class.
struct Objects {
    store: MemoryStore,
}

impl Objects {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let classes = ClassRuntime::new(Budget::default(), clock.clone());
        classes.register_native(log_class()).unwrap();
        let name = ClassName::new(PROGRAM_CLASS).unwrap();
        classes.install(&ClassProgram::new(name, 1, PROGRAM)).unwrap();
        Self { store: MemoryStore::new(Arc::new(classes), clock) }
    }

    /// Starts again with an empty object for each class. The old objects are dropped, because a
    /// long run makes millions of them.
    fn begin(&self) {
        for class in [NATIVE_CLASS, PROGRAM_CLASS] {
            // There is none at first.
            drop(self.submit(class, Op::Remove));
            self.call(class, "seal", &encode_epoch(1)).unwrap();
        }
    }

    fn submit(&self, class: &str, op: Op) -> nacre_object::Result<OpResult> {
        let object: ObjectId = format!("data/{class}").parse().unwrap();
        let request = Request::new(object, vec![op]).unwrap();
        let answer = self.store.submit(request).now_or_never().expect("memory does not wait");
        answer.map(|mut reply| reply.results.remove(0))
    }

    /// Calls a method of a class on the class's own object. Returns the output, or the status.
    ///
    /// # Panics
    /// If the class failed instead of refusing the call.
    fn call(&self, class: &str, method: &str, input: &[u8]) -> Result<Bytes, i32> {
        let call = ClassCall {
            class: ClassName::new(class).unwrap(),
            method: MethodName::new(method).unwrap(),
            version: None,
            input: Bytes::copy_from_slice(input),
        };
        match self.submit(class, Op::Call(call)) {
            Ok(OpResult::Called(reply)) => Ok(reply.output),
            Ok(other) => panic!("a call answered {other:?}"),
            // A status that the program returned has no line; a failure of the program itself has
            // one.
            Err(error) => {
                let meant = error.fault().is_none_or(|site| site.line.is_none());
                assert!(meant && error.kind() != ErrorKind::Exhausted, "{class}.{method}: {error}");
                Err(error.status())
            }
        }
    }
}

#[test]
fn fuzz_both_storage_classes_and_compare_their_answers() {
    const METHODS: [&str; 10] = [
        "seal",
        "max_position",
        "read",
        "write",
        "fill",
        "trim",
        "trim_to",
        "read_batch",
        "write_batch",
        "fill_batch",
    ];
    let of = |method: u8, input: Bytes| [&[method], &input[..]].concat();
    let write = [&encode_position(1, 3)[..], b"data"].concat();
    let samples = [
        of(1, Bytes::new()),
        of(3, write.into()),
        of(4, encode_position(1, 4)),
        of(5, encode_position(1, 4)),
        of(6, encode_position(1, 4)),
        of(7, encode_read_batch(1, 100, &[1, 2])),
        of(8, encode_write_batch(1, &[(1, &Bytes::from_static(b"abc"))])),
        of(9, encode_fill_batch(1, &[1, 2])),
        of(0, encode_epoch(2)),
    ];
    let (objects, mut calls) = (Objects::new(), 0_u64);
    fuzz_slow(CRATE, "storage_calls", CALLS_SHORT_RUN, &samples, |input| {
        let Some((method, rest)) = input.split_first() else { return false };
        if calls.is_multiple_of(INPUTS_AN_OBJECT) {
            objects.begin();
        }
        let method = METHODS[usize::from(*method) % METHODS.len()];
        let native = objects.call(NATIVE_CLASS, method, rest);
        let program = objects.call(PROGRAM_CLASS, method, rest);
        assert_eq!(native, program, "{method}: native, program");
        calls += 1;
        native.is_ok()
    });
}
