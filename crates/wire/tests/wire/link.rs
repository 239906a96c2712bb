//! Tests a node whose network link has a stated speed: small requests of one tenant pass beside
//! bulk transfers of another, in both directions. The tests compare orders, not times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::join_all;
use nacre_clock::SystemClock;
use nacre_conformance::MemoryStore;
use nacre_conformance::wait::within_deadline;
use nacre_object::{Op, OpResult, Reply};
use nacre_qos::scheduler::Share;
use nacre_qos::{Link, RateBurst};
use nacre_wire::proto::server_message::Body as Answer;
use nacre_wire::{LinkSettings, LinkShaper, Session, TenantLink};
use tokio::task::JoinHandle;

use crate::harness::{LONG, Node, SocketFolder, TestService, ask, asking, connect, request};
use crate::raw::{RawSession, asks};

const MIB: usize = 1 << 20;
/// So slow that a megabyte takes longer than hundreds of small requests.
const BYTES_PER_SECOND: f64 = 4e6;
/// Bytes of the bulk transfer.
pub const BULK: usize = 4 * MIB;
/// Small requests that must pass beside it.
const SMALL: usize = 20;

/// The link of a node on which the tenant of the pool `gold` has a promise.
pub fn settings() -> LinkSettings {
    let buckets = vec![RateBurst { rate: 0.5, burst_seconds: 0.1 }];
    let share = Share::Promised { priority: 0, buckets };
    let gold = TenantLink { sent: share.clone(), received: share };
    LinkSettings {
        pools: BTreeMap::from([("gold".parse().unwrap(), "gold".parse().unwrap())]),
        tenants: BTreeMap::from([("gold".parse().unwrap(), gold)]),
        ..LinkSettings::new(Link::new(BYTES_PER_SECOND).unwrap())
    }
}

fn shaper() -> Arc<LinkShaper> {
    Arc::new(LinkShaper::new(Arc::new(SystemClock::default())))
}

async fn node(folder: &SocketFolder, shaper: &Arc<LinkShaper>) -> Node {
    node_with(folder, shaper, TestService::new()).await
}

async fn node_with(
    folder: &SocketFolder,
    shaper: &Arc<LinkShaper>,
    service: Arc<TestService>,
) -> Node {
    let store = Arc::new(MemoryStore::plain());
    let with = |builder: nacre_wire::ServerBuilder| {
        builder.store(store.clone()).watch(store).service("test", service).link(shaper.clone())
    };
    Node::start(&folder.endpoint(), 1, with).await
}

pub async fn submit(session: &Session, object: &str, op: Op) -> Reply {
    session.submit(request(object, op), LONG).await.unwrap()
}

pub fn write(bytes: usize) -> Op {
    Op::Write { offset: 0, data: Bytes::from(vec![b'x'; bytes]) }
}

pub fn read(bytes: usize) -> Op {
    Op::Read { offset: 0, length: bytes as u64 }
}

/// Runs an operation on an object of the pool `bulk`; counts its end.
fn bulk(session: &Session, op: Op, ended: &Arc<AtomicUsize>) -> JoinHandle<Reply> {
    let (session, ended) = (session.clone(), ended.clone());
    tokio::spawn(async move {
        let reply = submit(&session, "bulk/a", op).await;
        ended.fetch_add(1, Ordering::SeqCst);
        reply
    })
}

/// Makes small requests of the tenant `gold` one after another, while two bulk transfers run on
/// `bulk_session`. The small requests must all end before the second transfer ends.
pub async fn small_requests_pass(bulk_session: &Session, small_session: &Session, bulk_op: Op) {
    submit(small_session, "gold/a", write(100)).await;
    let ended = Arc::new(AtomicUsize::new(0));
    let bulks = [(); 2].map(|()| bulk(bulk_session, bulk_op.clone(), &ended));
    for _ in 0..SMALL {
        submit(small_session, "gold/a", read(100)).await;
        submit(small_session, "gold/a", write(100)).await;
    }
    let before = ended.load(Ordering::SeqCst);
    assert!(before < 2, "the small requests waited for {before} bulk transfers");
    for bulk in bulks {
        within_deadline("the bulk transfer", bulk).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_requests_pass_beside_bulk_reads_on_one_session() {
    let folder = SocketFolder::new();
    let shaper = shaper();
    let node = node(&folder, &shaper).await;
    let session = connect(&node.endpoint).await;
    submit(&session, "bulk/a", write(BULK)).await;
    shaper.set(Some(settings()));
    small_requests_pass(&session, &session, read(BULK)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_requests_pass_beside_bulk_writes_on_one_session() {
    let folder = SocketFolder::new();
    let shaper = shaper();
    shaper.set(Some(settings()));
    let node = node(&folder, &shaper).await;
    let session = connect(&node.endpoint).await;
    small_requests_pass(&session, &session, write(BULK)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_requests_pass_beside_bulk_transfers_of_another_session() {
    let folder = SocketFolder::new();
    let shaper = shaper();
    shaper.set(Some(settings()));
    let node = node(&folder, &shaper).await;
    let (one, other) = (connect(&node.endpoint).await, connect(&node.endpoint).await);
    small_requests_pass(&one, &other, write(BULK)).await;
    small_requests_pass(&one, &other, read(BULK)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_parts_arrives_whole() {
    let folder = SocketFolder::new();
    let shaper = shaper();
    shaper.set(Some(LinkSettings::new(Link::new(1e9).unwrap())));
    let node = node(&folder, &shaper).await;
    let session = connect(&node.endpoint).await;
    let data = Bytes::from((0..3 * MIB).map(|at| (at / 7) as u8).collect::<Vec<_>>());
    let writes = ["a", "b", "c"].map(|pool| {
        let (session, data) = (session.clone(), data.clone());
        async move {
            let object = format!("{pool}/a");
            submit(&session, &object, Op::Write { offset: 0, data: data.clone() }).await;
            let reply = submit(&session, &object, read(data.len())).await;
            assert_eq!(reply.results, [OpResult::Data(data)]);
        }
    });
    within_deadline("three transfers", join_all(writes)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_parts_gets_whole_messages() {
    let folder = SocketFolder::new();
    let shaper = shaper();
    shaper.set(Some(LinkSettings::new(Link::new(1e8).unwrap())));
    let node = node(&folder, &shaper).await;
    let (mut raw, welcome) = RawSession::open(&node.endpoint).await;
    assert!(welcome.takes_parts && welcome.link_bytes_per_second == 100_000_000, "{welcome:?}");
    raw.send(vec![asks(1, "make", &MIB.to_string())]);
    match raw.next().await.unwrap().unwrap().body {
        Some(Answer::Answer(answer)) => assert_eq!(answer.output.len(), MIB),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_messages_are_sent_once_the_link_has_no_stated_speed() {
    let folder = SocketFolder::new();
    let shaper = shaper();
    // A megabyte takes a quarter of an hour.
    shaper.set(Some(LinkSettings::new(Link::new(1e3).unwrap())));
    let service = TestService::new();
    let node = node_with(&folder, &shaper, service.clone()).await;
    let session = connect(&node.endpoint).await;
    let asked = asking(&session, "make", MIB.to_string());
    service.until_finished(1).await;
    let written = bulk(&session, write(MIB), &Arc::default());
    shaper.set(None);
    let answer = within_deadline("the answer", asked).await.unwrap().unwrap();
    assert_eq!(answer.len(), MIB);
    within_deadline("the write", written).await.unwrap();
    assert_eq!(ask(&session, "echo", "x").await.unwrap(), "x");
}
