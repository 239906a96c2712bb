//! Requests that are run again and again, on objects that answer whatever they are asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::{Clock, ManualClock};
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{
    CallContext, CallReply, ClassCall, ClassHost, ClassName, EntityName, Error, ErrorKind,
    MethodName, ObjectId, ObjectName, ObjectView, Op, PoolName, RemoteClassHost, Request, Result,
};

use crate::cluster::failure::status;
use crate::ffi::{Answer, Change, Fetch, Fetched};
use crate::transaction::Transaction;
use crate::transaction::image::MAX_IMAGE_BYTES;
use crate::transaction::objects::Objects;

/// Entries of the map of each of the objects, of 1 KiB each.
const MAP_ENTRIES: u32 = 200_000;
/// The time that most methods of [`Slow`] take.
const CALL_TIME: Duration = Duration::from_millis(100);

/// Simulated objects with much data and many map entries. A walk over the map finds entries, but a
/// look-up of a single key finds nothing. The first `overtaken` writes fail as if another client
/// had changed the object.
#[derive(Default)]
struct Endless {
    overtaken: AtomicU32,
    fetched: Mutex<Vec<Fetch>>,
}

impl Objects for Endless {
    async fn fetch(&self, _: &str, _: Option<u64>, fetches: &[Fetch]) -> (Answer, Vec<Fetched>) {
        self.fetched.lock().unwrap().extend_from_slice(fetches);
        let fetched = |fetch: &Fetch| match fetch {
            Fetch::Stat => Fetched::Stat { size: MAX_OBJECT_BYTES, modified_seconds: 0 },
            Fetch::Data { length, .. } => Fetched::Data(Bytes::from(vec![0; *length])),
            Fetch::Keys(_) => Fetched::Keys(vec![]),
            Fetch::Range { after, limit, .. } => walked(after, *limit),
            Fetch::Attributes => panic!("nobody asks for them"),
        };
        (Answer { status: 0, version: 1 }, fetches.iter().map(fetched).collect())
    }

    async fn apply(&self, _: &str, _: &[Change]) -> Answer {
        let left = self.overtaken.load(Ordering::Relaxed);
        self.overtaken.store(left.saturating_sub(1), Ordering::Relaxed);
        Answer { status: if left > 0 { status::NEWER } else { 0 }, version: 2 }
    }
}

/// Entries of a map behind a key: it is the number in front of the first.
fn walked(after: &[u8], limit: u64) -> Fetched {
    let number = |key: &[u8]| std::str::from_utf8(key).unwrap().parse::<u32>().unwrap();
    let first = if after.is_empty() { 0 } else { number(&after[..6]) + 1 };
    let behind = MAP_ENTRIES.min(first + limit as u32);
    let entry = |number| (Bytes::from(format!("{number:06}")), Bytes::from(vec![0; 1024]));
    Fetched::Range { entries: (first..behind).map(entry).collect(), more: behind < MAP_ENTRIES }
}

/// A class whose only method takes `call_time` and does what `method` does.
struct Slow<'a> {
    clock: &'a ManualClock,
    call_time: Duration,
    method: fn(&mut dyn ObjectView) -> Result<()>,
}

impl ClassHost for Slow<'_> {
    fn is_read_only(&self, _: &ClassCall) -> bool {
        false
    }

    fn call(&self, _: &ClassCall, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
        self.clock.advance(self.call_time);
        (self.method)(view).map(|()| CallReply::default())
    }
}

impl RemoteClassHost for Slow<'_> {}

/// Runs a request of this many calls.
async fn run(
    objects: &Endless,
    calls: usize,
    method: fn(&mut dyn ObjectView) -> Result<()>,
) -> (Result<()>, Duration) {
    run_by(CALL_TIME, objects, calls, method).await
}

/// As [`run`], where each run of a call takes `call_time`.
async fn run_by(
    call_time: Duration,
    objects: &Endless,
    calls: usize,
    method: fn(&mut dyn ObjectView) -> Result<()>,
) -> (Result<()>, Duration) {
    let call = Op::Call(ClassCall {
        class: ClassName::new("class").unwrap(),
        method: MethodName::new("method").unwrap(),
        version: None,
        input: Bytes::new(),
    });
    let object = ObjectId::new(PoolName::new("pool").unwrap(), ObjectName::new("object").unwrap());
    let clock = ManualClock::at(0);
    let transaction = Transaction {
        objects,
        classes: &Slow { clock: &clock, call_time, method },
        request: &Request::new(object, vec![call; calls]).unwrap(),
        clock: &clock,
        call: CallContext { source: EntityName::local(), now_micros: 0 },
    };
    let outcome = transaction.run().await.map(|_| ());
    (outcome, clock.monotonic())
}

#[track_caller]
fn assert_exhausted((outcome, took): (Result<()>, Duration)) {
    assert_eq!(outcome.map_err(|error: Error| error.kind()), Err(ErrorKind::Exhausted));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

fn look_at_keys(view: &mut dyn ObjectView) -> Result<()> {
    (0..1_000_000_u32).try_for_each(|number| view.map_get(&number.to_be_bytes()).map(|_| ()))
}

fn look_at_offsets(view: &mut dyn ObjectView) -> Result<()> {
    (0..10_000).rev().try_for_each(|offset| view.read(offset, 31 << 20).map(|_| ()))
}

#[tokio::test]
async fn the_runs_of_a_request_have_one_allowance() {
    assert_exhausted(run(&Endless::default(), 1, look_at_keys).await);
}

#[tokio::test]
async fn the_calls_of_a_request_have_one_allowance() {
    assert_exhausted(run(&Endless::default(), 1000, |view| view.create(false)).await);
}

#[tokio::test]
async fn the_attempts_of_a_request_have_one_allowance() {
    let contended = Endless { overtaken: 99.into(), ..Default::default() };
    assert_exhausted(run(&contended, 10, |view| view.map_set(b"key", Bytes::new())).await);
    let seldom = Endless { overtaken: 3.into(), ..Default::default() };
    run(&seldom, 10, |view| view.map_set(b"key", Bytes::new())).await.0.unwrap();
}

#[tokio::test]
async fn a_request_that_reads_more_and_more_of_an_object_is_stopped() {
    let objects = Endless::default();
    assert_exhausted(run(&objects, 1, look_at_offsets).await);
    let fetched: usize = objects.fetched.lock().unwrap().iter().map(Fetch::data_bytes).sum();
    assert!(fetched <= 64 << 20, "{fetched}");
}

#[tokio::test]
async fn a_part_past_the_memory_bound_is_not_fetched() {
    let objects = Endless::default();
    assert_exhausted(run(&objects, 1, |view| view.read(0, MAX_OBJECT_BYTES).map(|_| ())).await);
    assert_eq!(*objects.fetched.lock().unwrap(), [Fetch::Stat]);
}

#[tokio::test]
async fn the_last_key_of_a_map_larger_than_memory_is_found() {
    assert!(MAP_ENTRIES as usize * 1024 > 2 * MAX_IMAGE_BYTES);
    let find_last = |view: &mut dyn ObjectView| {
        let last = view.map_last(b"")?.expect("there are entries");
        assert_eq!(last.key, "199999");
        view.map_set(b"100000", Bytes::new())?;
        assert_eq!(view.map_last(b"")?, Some(last));
        view.map_set(b"200000", Bytes::from_static(b"set"))?;
        assert_eq!(view.map_last(b"")?.expect("there are more").value, "set");
        view.map_remove(b"200000")?;
        assert_eq!(view.map_last(b"")?.expect("it is as before").key, "199999");
        Ok(())
    };
    run_by(Duration::ZERO, &Endless::default(), 1, find_last).await.0.unwrap();
}
