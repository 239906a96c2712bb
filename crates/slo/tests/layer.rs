//! Tests of the layer in front of an engine that answers each request only when the test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use nacre_clock::{Clock, ManualClock};
use nacre_conformance::{MemoryStore, TestClasses};
use nacre_object::{
    ClassCall, ErrorKind, Layer, Op, Reply, Request, Result, Stack, Store, TargetName, TenantName,
};
use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits};
use nacre_qos::{ArrivalCurve, IoKind, Profile, ProfileRow, RateBurst};
use nacre_slo::{
    MissCause, NodeSlo, OneTarget, Promise, PromisedFlow, SloLayer, SloState, StoredProfile,
    background_tenant,
};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};

/// How many requests may be outstanding at the target.
const DEPTH: usize = 2;
/// The work of each request.
const WORK_SECONDS: f64 = 0.01;

/// The objects of the requests at the engine. Sending to the channel answers the request.
type HeldRequests = Arc<Mutex<VecDeque<(String, oneshot::Sender<()>)>>>;

/// An engine that holds each request until the test releases it.
#[derive(Debug)]
struct Gate {
    next: Stack,
    held: HeldRequests,
}

impl Layer for Gate {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        Box::pin(async move {
            let (release, released) = oneshot::channel();
            let object = request.header.object.to_string();
            self.held.lock().unwrap().push_back((object, release));
            let _ = released.await;
            self.next.submit(request).await
        })
    }
}

struct Bed {
    clock: Arc<ManualClock>,
    node: Arc<NodeSlo>,
    store: Arc<dyn Store>,
    held: HeldRequests,
}

impl Bed {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let as_clock: Arc<dyn Clock> = clock.clone();
        let node = NodeSlo::new(OneTarget(target()), as_clock);
        let held = Arc::default();
        let stack = Stack::new(MemoryStore::new(Arc::new(TestClasses), clock.clone()))
            .wrapped_by(|next| Gate { next, held: Arc::clone(&held) })
            .wrapped_by(|next| SloLayer::new(next, Arc::clone(&node)));
        Self { clock, node, store: stack.as_store(), held }
    }

    /// A layer with an enforced promise to the tenant `gold`: 100 ms for twenty requests a second,
    /// with bursts of five.
    fn enforced() -> Self {
        let bed = Self::new();
        bed.node.apply(state());
        bed
    }

    /// Sends a write on the object `TENANT/NUMBER`. The pool decides to which tenant the request
    /// belongs.
    async fn send(&self, tenant: &str, number: usize) -> JoinHandle<Result<Reply>> {
        let object = format!("{tenant}/{number}").parse().unwrap();
        let op = Op::WriteFull { data: Bytes::from_static(&[0; 100]) };
        let request = Request::new(object, vec![op]).unwrap();
        let store = Arc::clone(&self.store);
        let sent = tokio::spawn(async move { store.submit(request).await });
        settle().await;
        sent
    }

    /// The objects of the requests at the engine, in the order they came.
    fn at_engine(&self) -> Vec<String> {
        self.held.lock().unwrap().iter().map(|(object, _)| object.clone()).collect()
    }

    /// Makes the engine answer its oldest request after `seconds`.
    async fn answer_after(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
        let released = self.held.lock().unwrap().pop_front();
        released.expect("a request is at the engine").1.send(()).unwrap();
        settle().await;
    }
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..16 {
        yield_now().await;
    }
}

fn target() -> TargetName {
    "storage.0".parse().unwrap()
}

fn name(tenant: &str) -> TenantName {
    tenant.parse().unwrap()
}

fn state() -> SloState {
    let bandwidth = 100.0 / WORK_SECONDS;
    let row = ProfileRow {
        bytes: 100,
        read_bytes_per_second: bandwidth,
        write_bytes_per_second: bandwidth,
    };
    let kind = KindLimits { requests: DEPTH, bytes: 1 << 20 };
    let profile = StoredProfile {
        profile: Profile::new(vec![row]).unwrap(),
        outstanding: DeviceLimits { reads: kind, writes: kind },
        commits: Commits::Singly,
        fingerprint: String::new(),
        uncertainty: 0.0,
        measured_at_micros: 0,
    };
    let bucket = RateBurst { rate: 0.2, burst_seconds: 0.05 };
    let promise = Promise {
        slo_seconds: 0.1,
        violation: None,
        percentile: 99.0,
        bound_seconds: 0.1,
        priority: 0,
        placement_epoch: 0,
        profile_epoch: None,
        client_link_bytes_per_second: None,
        flows: vec![PromisedFlow {
            target: target().to_string(),
            curve: ArrivalCurve::lower_envelope(&[bucket]).unwrap(),
            bucket,
        }],
        traffic: String::new(),
    };
    let pools = ["gold", "bulk", "other"];
    SloState {
        is_enforced: true,
        pools: pools.map(|pool| (pool.parse().unwrap(), name(pool))).into(),
        profiles: [(target(), profile)].into(),
        promises: [(name("gold"), promise)].into(),
        ..SloState::default()
    }
}

#[tokio::test]
async fn no_request_waits_while_promises_are_not_enforced() {
    let bed = Bed::new();
    bed.node.apply(SloState { is_enforced: false, ..state() });
    for number in 0..5 {
        bed.send("bulk", number).await;
    }
    assert_eq!(bed.at_engine().len(), 5);
}

#[tokio::test]
async fn the_engine_never_has_more_requests_than_its_limit() {
    let bed = Bed::enforced();
    for number in 0..5 {
        bed.send("bulk", number).await;
    }
    assert_eq!(bed.at_engine(), ["bulk/0", "bulk/1"]);
    bed.answer_after(WORK_SECONDS).await;
    assert_eq!(bed.at_engine(), ["bulk/1", "bulk/2"]);
}

#[tokio::test]
async fn a_request_with_a_promise_overtakes_requests_without_one() {
    let bed = Bed::enforced();
    for number in 0..4 {
        bed.send("bulk", number).await;
    }
    bed.send("gold", 0).await;
    bed.answer_after(WORK_SECONDS).await;
    assert_eq!(bed.at_engine(), ["bulk/1", "gold/0"]);
}

#[tokio::test]
async fn a_tenant_beyond_its_bucket_waits_like_a_tenant_without_a_promise() {
    let bed = Bed::enforced();
    for number in 0..8 {
        bed.send("gold", number).await;
    }
    bed.send("bulk", 0).await;
    for _ in 0..5 {
        bed.answer_after(0.0).await;
    }
    // Five requests of gold are within its burst. After them the two tenants take turns.
    let waiting = bed.at_engine();
    assert!(waiting.contains(&"bulk/0".to_owned()), "{waiting:?}");
}

#[tokio::test]
async fn requests_of_a_tenant_reach_the_engine_in_the_order_they_came() {
    let bed = Bed::enforced();
    for number in 0..6 {
        bed.send("gold", number).await;
    }
    let mut order = vec![];
    while !bed.at_engine().is_empty() {
        order.push(bed.at_engine()[0].clone());
        bed.answer_after(WORK_SECONDS).await;
    }
    assert_eq!(order, (0..6).map(|number| format!("gold/{number}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dropped_request_leaves_its_place_to_the_next() {
    let bed = Bed::enforced();
    let running = bed.send("bulk", 0).await;
    bed.send("bulk", 1).await;
    let waiting = bed.send("bulk", 2).await;
    bed.send("bulk", 3).await;
    waiting.abort();
    settle().await;
    running.abort();
    settle().await;
    let at_engine = bed.at_engine();
    assert_eq!(at_engine.last().unwrap(), "bulk/3", "{at_engine:?}");
    let report = &bed.node.report()[0];
    assert_eq!((report.queued, report.outstanding), (0, 2));
}

#[tokio::test]
async fn waiting_requests_go_on_when_promises_are_no_longer_enforced() {
    let bed = Bed::enforced();
    let mut sent = vec![];
    for number in 0..4 {
        sent.push(bed.send("bulk", number).await);
    }
    bed.node.apply(SloState { is_enforced: false, ..state() });
    for _ in 0..4 {
        bed.answer_after(WORK_SECONDS).await;
    }
    for one in sent {
        one.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_how_long_to_wait() {
    let bed = Bed::enforced();
    let mut sent = vec![];
    for number in 0..=nacre_qos::limits::DEFAULT_QUEUE_REQUESTS + DEPTH {
        let object = format!("bulk/{number}").parse().unwrap();
        let op = Op::WriteFull { data: Bytes::from_static(&[0; 100]) };
        let request = Request::new(object, vec![op]).unwrap();
        let store = Arc::clone(&bed.store);
        sent.push(tokio::spawn(async move { store.submit(request).await }));
    }
    let refused = sent.pop().unwrap().await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    assert!(refused.hint_text().unwrap().contains("try again in"), "{refused}");
    assert_eq!(bed.node.report()[0].tenants[0].refused, 1);
}

#[tokio::test]
async fn requests_on_nacres_own_objects_come_first() {
    let bed = Bed::enforced();
    for number in 0..4 {
        bed.send("gold", number).await;
    }
    bed.send("nacre.system", 0).await;
    bed.answer_after(WORK_SECONDS).await;
    assert_eq!(bed.at_engine(), ["gold/1", "nacre.system/0"]);
}

#[tokio::test]
async fn a_missed_promise_is_counted_with_its_cause() {
    let bed = Bed::enforced();
    bed.send("gold", 0).await;
    bed.answer_after(0.05).await;
    assert_eq!(bed.node.take_misses(), []);
    bed.send("gold", 1).await;
    bed.answer_after(0.5).await;
    let misses = bed.node.take_misses();
    assert_eq!(misses.len(), 1);
    let miss = &misses[0];
    assert_eq!((miss.tenant.as_str(), miss.requests, miss.of_requests), ("gold", 1, 1));
    assert_eq!((miss.worst_seconds, miss.cause), (0.5, MissCause::Background));
    assert_eq!(bed.node.take_misses(), [], "a miss is told once");
}

#[tokio::test]
async fn a_tenant_that_asks_for_too_much_causes_its_own_misses() {
    let bed = Bed::enforced();
    for number in 0..20 {
        bed.send("gold", number).await;
    }
    for _ in 0..20 {
        bed.answer_after(0.03).await;
    }
    let misses = bed.node.take_misses();
    assert_eq!(misses[0].cause, MissCause::OutsideEnvelope, "{misses:?}");
}

#[tokio::test]
async fn a_report_has_latencies_by_tenant() {
    let bed = Bed::enforced();
    bed.send("gold", 0).await;
    bed.answer_after(0.04).await;
    let report = &bed.node.report()[0];
    let gold = report.tenants.iter().find(|tenant| tenant.tenant == "gold").unwrap();
    let p50 = gold.minute.percentile_seconds(50.0).unwrap();
    assert!((p50 / 0.04 - 1.0).abs() < 0.1, "{p50}");
    assert_eq!((gold.requests, gold.within, gold.misses), (1, 1, 0));
    // The bucket held 0.05 s of work, and the request took 0.01 s. In the next 0.04 s the bucket
    // regained 0.008 s, at 0.2 s of work a second.
    assert!((gold.tokens_seconds[0] - 0.048).abs() < 1e-9, "{:?}", gold.tokens_seconds);
}

#[tokio::test]
async fn a_refused_request_of_a_tenant_with_a_promise_counts_as_a_miss() {
    let bed = Bed::enforced();
    // The promise covers twenty requests a second, and a request waits 20 s at most. So fewer than
    // 500 requests can be served, and some must be refused.
    for number in 0..500 {
        bed.send("gold", number).await;
    }
    let gold = &bed.node.report()[0].tenants[0];
    assert!(gold.refused > 50 && gold.misses == gold.refused, "{gold:?}");
    let miss = &bed.node.take_misses()[0];
    assert_eq!((miss.cause, miss.requests), (MissCause::OutsideEnvelope, gold.refused));
    assert!(miss.requests <= miss.of_requests);
}

#[tokio::test]
async fn background_work_waits_for_its_turn_and_is_outstanding_until_it_is_done() {
    let bed = Bed::enforced();
    for number in 0..DEPTH {
        bed.send("bulk", number).await;
    }
    let node = Arc::clone(&bed.node);
    let waiting = tokio::spawn(async move { node.background(IoKind::Write, 100).await });
    settle().await;
    assert!(!waiting.is_finished(), "the target has all that it may");
    bed.answer_after(WORK_SECONDS).await;
    let work = waiting.await.unwrap().unwrap();
    bed.send("other", 0).await;
    assert_eq!(bed.at_engine(), ["bulk/1"], "the background work has a place");
    work.done(100);
    settle().await;
    assert_eq!(bed.at_engine(), ["bulk/1", "other/0"]);
    let report = bed.node.report().remove(0);
    let background = background_tenant().to_string();
    let own = report.tenants.iter().find(|tenant| tenant.tenant == background).unwrap();
    assert_eq!(own.requests, 1);
}

#[tokio::test]
async fn a_step_of_a_layout_change_is_background_work() {
    let bed = Bed::enforced();
    let (class, method) = ("counter".parse().unwrap(), "layout_migrate".parse().unwrap());
    let call = ClassCall { class, method, version: None, input: Bytes::new() };
    let request = Request::new("gold/o".parse().unwrap(), vec![Op::Call(call)]).unwrap();
    let store = Arc::clone(&bed.store);
    let sent = tokio::spawn(async move { store.submit(request).await });
    settle().await;
    bed.answer_after(WORK_SECONDS).await;
    // The store of this test has no such method.
    assert!(sent.await.unwrap().is_err());
    let report = bed.node.report().remove(0);
    let tenants: Vec<_> = report.tenants.iter().map(|tenant| tenant.tenant.as_str()).collect();
    assert_eq!(tenants, [background_tenant().as_str()]);
}
