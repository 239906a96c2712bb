//! Workloads of concurrent clients on a store, recorded for the checkers of
//! [`histories`](crate::histories). A workload judges nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use nacre_clock::Random;
use nacre_object::{ErrorKind, ObjectId, Op, OpResult, Request, Store};

use crate::histories::{ObjectAnswer, ObjectCall, Operation, Recorder};
use crate::ops;

/// The number of keys: few, so that clients often use the same key.
const KEYS: u64 = 2;

/// The calls of clients on one object, with their answers.
pub type ObjectHistory = Vec<Operation<ObjectCall, ObjectAnswer>>;

/// Makes several clients use one object at the same time, and returns their history. Each client
/// makes this many calls, one after the other. The seed decides the calls; the runtime decides how
/// they overlap.
///
/// # Panics
/// If a call fails with an error that no injected fault explains.
pub async fn use_object(
    stores: &[Arc<dyn Store>],
    object: &ObjectId,
    seed: u64,
    calls: usize,
) -> ObjectHistory {
    let recorder = Recorder::default();
    let clients = stores.iter().enumerate().map(|(n, store)| {
        let client = Client {
            store: store.clone(),
            object: object.clone(),
            recorder: recorder.clone(),
            random: Random::seeded(seed * 1000 + n as u64),
            name: n,
        };
        tokio::spawn(client.run(calls))
    });
    for client in join_all(clients).await {
        client.expect("a client ends");
    }
    recorder.operations()
}

struct Client {
    store: Arc<dyn Store>,
    object: ObjectId,
    recorder: Recorder<ObjectCall, ObjectAnswer>,
    random: Random,
    name: usize,
}

impl Client {
    async fn run(mut self, calls: usize) {
        for n in 0..calls {
            let text = format!("{}.{n};", self.name);
            let key = format!("k{}", self.random.below(KEYS));
            match self.random.below(12) {
                0 => self.record(ObjectCall::Replace(text)).await,
                1..3 => self.record(ObjectCall::Append(text)).await,
                3..6 => self.record(ObjectCall::Read).await,
                6..8 => self.record(ObjectCall::Set(key, text)).await,
                8..10 => self.record(ObjectCall::Get(key)).await,
                _ => self.compare_and_set(key, text).await,
            }
        }
    }

    async fn submit(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, ErrorKind> {
        let request = Request::new(self.object.clone(), ops).expect("a small transaction");
        let reply = self.store.submit(request).await;
        reply.map(|reply| reply.results).map_err(|error| error.kind())
    }

    async fn record(&self, call: ObjectCall) {
        let ticket = self.recorder.begin(call.clone());
        match self.submit(vec![op_of(&call)]).await {
            Ok(results) => self.recorder.end(ticket, answer_of(&call, &results)),
            Err(ErrorKind::NotFound) => self.recorder.end(ticket, nothing(&call)),
            Err(ErrorKind::Unavailable) if is_read(&call) => self.recorder.never_happened(ticket),
            Err(ErrorKind::Unavailable) => drop(ticket),
            Err(other) => panic!("{call:?} failed with {other:?}"),
        }
    }

    /// Reads a key with the object's version, and sets it if the version is still the same.
    async fn compare_and_set(&self, key: String, value: String) {
        let read = self.submit(vec![ops::map_get([key.clone()]), Op::Stat]).await;
        let Ok([OpResult::Values(values), OpResult::Stat(stat)]) = read.as_deref() else { return };
        let expected = values[0].as_ref().map(text);
        let call = ObjectCall::CompareAndSet(key.clone(), expected, value.clone());
        let ticket = self.recorder.begin(call);
        let ops = vec![Op::AssertVersion(stat.version), ops::map_set([(key, value)])];
        match self.submit(ops).await {
            Ok(_) => self.recorder.end(ticket, ObjectAnswer::Done),
            // Another client has changed the object since this call read it, but perhaps not the
            // compared key. So nobody knows how the comparison would end. The call counts as one
            // that never happened.
            Err(ErrorKind::Conflict) => self.recorder.never_happened(ticket),
            Err(ErrorKind::Unavailable) => drop(ticket),
            Err(other) => panic!("a guarded set failed with {other:?}"),
        }
    }
}

fn is_read(call: &ObjectCall) -> bool {
    matches!(call, ObjectCall::Read | ObjectCall::Get(_))
}

fn op_of(call: &ObjectCall) -> Op {
    match call {
        ObjectCall::Replace(data) => ops::write_full(data.clone()),
        ObjectCall::Append(data) => ops::append(data.clone()),
        ObjectCall::Read => ops::read_all(),
        ObjectCall::Set(key, value) => ops::map_set([(key.clone(), value.clone())]),
        ObjectCall::Get(key) => ops::map_get([key.clone()]),
        ObjectCall::CompareAndSet(..) => unreachable!("it takes two transactions"),
    }
}

fn answer_of(call: &ObjectCall, results: &[OpResult]) -> ObjectAnswer {
    match results {
        [OpResult::Done] => ObjectAnswer::Done,
        [OpResult::Offset(offset)] => ObjectAnswer::Offset(*offset),
        [OpResult::Data(data)] => ObjectAnswer::Stream(text(data)),
        [OpResult::Values(values)] => ObjectAnswer::Value(values[0].as_ref().map(text)),
        other => panic!("{call:?} was answered {other:?}"),
    }
}

/// The answer of an object that does not exist.
fn nothing(call: &ObjectCall) -> ObjectAnswer {
    match call {
        ObjectCall::Read => ObjectAnswer::Stream(String::new()),
        ObjectCall::Get(_) => ObjectAnswer::Value(None),
        other => panic!("{other:?} found nothing"),
    }
}

fn text(data: &Bytes) -> String {
    String::from_utf8_lossy(data).into_owned()
}
