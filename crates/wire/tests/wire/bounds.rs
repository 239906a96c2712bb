//! Tests that each bound leads to back-pressure or a clear error.

use std::time::Duration;

use bytes::Bytes;
use nacre_conformance::{MemoryStore, ops};
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_OPS, MAX_REPLY_ENTRIES, MAX_REQUEST_KEYS};
use nacre_object::{ErrorKind, MapEntry, Op, Request, Store};
use nacre_wire::RemoteStore;
use nacre_wire::limits::{
    CLIENT_BUDGET_BYTES, CONNECTION_WINDOW_BYTES, MAX_BATCH_BYTES, MAX_BATCH_MESSAGES,
    MAX_CALLS_BYTES, MAX_MESSAGE_BYTES, MAX_REPLIES_WAITING_BYTES, MAX_UNDER_WAY,
    MAX_UNDER_WAY_BYTES, REPLIES_WAITING_BYTES, STREAM_WINDOW_BYTES,
};
use nacre_wire::proto as pb;
use nacre_wire::proto::client_message::Body as Asked;
use nacre_wire::proto::op::Op as PbOp;
use nacre_wire::proto::server_message::Body as Answer;
use tonic::Code;

use crate::harness::{
    LONG, Node, SocketFolder, TestService, ask, asking, connect, eventually, object, request,
};
use crate::raw::{RawSession, asks, call, message, served};

const MIB: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_keeps_no_more_in_flight_than_its_budget() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let large = Bytes::from(vec![0; 8 * MIB - 1024]);
    let count = CLIENT_BUDGET_BYTES / (8 * MIB);
    let held: Vec<_> = (0..count).map(|_| asking(&session, "hold", large.clone())).collect();
    service.until_begun(count).await;
    let short = Duration::from_millis(50);
    let error = session.ask("test", "echo", large.clone(), short).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("filled the client's budget"), "{error}");
    assert_eq!(service.begun(), count);
    service.release(count);
    for held in held {
        held.await.unwrap().unwrap();
    }
    assert_eq!(ask(&session, "echo", large.clone()).await.unwrap(), large);
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_messages_keep_their_budget_while_the_node_does_not_read() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let large = Bytes::from(vec![0; 8 * MIB - 1024]);
    let short = Duration::from_millis(50);
    // The most requests that can be in flight: as many as fit into the node, the flow-control
    // windows and the client's budget together. The 4 allows for socket buffers and rounding.
    let windows = CONNECTION_WINDOW_BYTES as usize;
    let most = (MAX_UNDER_WAY_BYTES + windows + CLIENT_BUDGET_BYTES) / (8 * MIB) + 4;
    let mut left_behind = 0;
    loop {
        let error = session.ask("test", "hold", large.clone(), short).await.unwrap_err();
        if error.to_string().contains("filled the client's budget") {
            break;
        }
        left_behind += 1;
        assert!(left_behind <= most, "{left_behind} were sent or wait: {error}");
    }
    service.release(left_behind);
    assert_eq!(ask(&session, "echo", large.clone()).await.unwrap(), large);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_only_a_bounded_number_of_requests() {
    let (_place, service, node, mut greedy) = served().await;
    let count = MAX_UNDER_WAY as u64 + 1000;
    greedy.send((1..=count).map(|id| asks(id, "hold", "")).collect());
    service.until_begun(MAX_UNDER_WAY).await;
    // Another session is not held up. After its answer, the greedy session has not got any further.
    ask(&connect(&node.endpoint).await, "echo", "").await.unwrap();
    assert_eq!(service.begun(), MAX_UNDER_WAY + 1);
    service.release(count as usize);
    for _ in 0..count {
        greedy.next().await.unwrap().unwrap();
    }
    assert_eq!(service.begun(), count as usize + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_replies_gets_no_more() {
    let (_place, service, node, mut lazy) = served().await;
    const ASKED: u64 = 100;
    for id in 1..=ASKED {
        lazy.send(vec![asks(id, "make", &MIB.to_string())]);
    }
    // The most replies that can be ready: as many as fit into the server and the flow-control
    // window together. The 4 allows for socket buffers and rounding.
    let most = (REPLIES_WAITING_BYTES + STREAM_WINDOW_BYTES as usize) / MIB + 4;
    service.until_begun(REPLIES_WAITING_BYTES / MIB).await;
    const TURNS: usize = 200;
    turns_of_others(&node, TURNS).await;
    assert!(service.begun() - TURNS <= most, "{} were begun", service.begun() - TURNS);
    for _ in 0..ASKED {
        lazy.next().await.unwrap().unwrap();
    }
}

/// Lets another client send `turns` requests. In this time the node could begin requests of the
/// client that does not read.
async fn turns_of_others(node: &Node, turns: usize) {
    let session = connect(&node.endpoint).await;
    for _ in 0..turns {
        ask(&session, "bystander", "").await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bound_on_unread_replies_holds_within_one_batch() {
    let (_place, service, node, mut lazy) = served().await;
    const ASKED: u64 = 1000;
    const TURNS: usize = 200;
    lazy.send((1..=ASKED).map(|id| asks(id, "make", &MIB.to_string())).collect());
    service.until_begun(REPLIES_WAITING_BYTES / MIB).await;
    turns_of_others(&node, TURNS).await;
    let most = (REPLIES_WAITING_BYTES + STREAM_WINDOW_BYTES as usize) / MIB + 4;
    assert!(service.begun() - TURNS <= most, "{} were begun", service.begun() - TURNS);
    // What remained of the batch comes in its order.
    for id in 1..=ASKED {
        assert_eq!(lazy.next().await.unwrap().unwrap().id, id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_end_together_are_answered_up_to_the_bound() {
    let (_place, service, node, mut lazy) = served().await;
    const ASKED: usize = 64;
    // The length of a reply. A few replies of this length exceed the bound on unread replies if
    // their requests end at the same time.
    const BYTES: usize = 8 * MIB - 1024;
    const TURNS: usize = 200;
    lazy.send((1..=ASKED as u64).map(|id| asks(id, "hold-make", &BYTES.to_string())).collect());
    service.until_begun(ASKED).await;
    service.release(ASKED);
    service.until_finished(MAX_REPLIES_WAITING_BYTES / BYTES).await;
    turns_of_others(&node, TURNS).await;
    let most = (MAX_REPLIES_WAITING_BYTES + STREAM_WINDOW_BYTES as usize) / BYTES + 4;
    let finished = service.finished() - TURNS;
    assert!(finished <= most, "{finished} were answered");
    for _ in 0..ASKED {
        lazy.next().await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_only_a_bounded_number_of_bytes() {
    let (_place, service, node, mut greedy) = served().await;
    let count = 2 * MAX_UNDER_WAY_BYTES / (8 * MIB);
    let large = "x".repeat(8 * MIB);
    for id in 1..=count as u64 {
        greedy.send(vec![asks(id, "hold", &large)]);
    }
    let most = MAX_UNDER_WAY_BYTES / (8 * MIB);
    const TURNS: usize = 200;
    service.until_begun(most).await;
    turns_of_others(&node, TURNS).await;
    assert_eq!(service.begun() - TURNS, most);
    service.release(count);
    for _ in 0..count {
        greedy.next().await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_calls_count_against_their_entity_until_they_end() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let large = "x".repeat(8 * MIB - 64 * 1024);
    let given_up = async || {
        let hold = pb::ClientMessage { timeout_micros: 1, ..asks(1, "hold", &large) };
        match call(&node.endpoint, hold).await.unwrap().body {
            Some(Answer::Error(error)) => error.kind(),
            other => panic!("{other:?}"),
        }
    };
    let count = MAX_CALLS_BYTES / (8 * MIB);
    for _ in 0..count {
        assert_eq!(given_up().await, pb::ErrorKind::Unavailable);
    }
    service.until_begun(count).await;
    assert_eq!(given_up().await, pb::ErrorKind::Exhausted);
    // Sessions are not held up. After their answers, no further call was begun.
    ask(&connect(&node.endpoint).await, "echo", "").await.unwrap();
    assert_eq!(service.begun(), count + 1);
    // A call that waits long enough runs at last.
    let last = call(&node.endpoint, asks(2, "bystander", &large));
    let release = async { service.release(count) };
    let (last, ()) = tokio::join!(last, release);
    assert!(matches!(
        last.unwrap().body,
        Some(Answer::Error(error)) if error.kind() == pb::ErrorKind::Unsupported
    ));
    assert_eq!(service.begun(), count + 2);
}

fn requests(id: u64, ops: Vec<PbOp>) -> pb::ClientMessage {
    let ops = ops.into_iter().map(|op| pb::Op { op: Some(op) }).collect();
    let (pool, object) = ("data".to_owned(), "a".to_owned());
    message(id, Asked::Request(pb::ObjectRequest { pool, object, ops, ..Default::default() }))
}

fn removes(keys: usize) -> PbOp {
    PbOp::MapRemove(pb::op::Keys { keys: vec![Bytes::from_static(b"k"); keys] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_would_decode_beyond_bounds_is_refused_and_the_session_goes_on() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &MemoryStore::plain()).await;
    let (mut session, _) = RawSession::open(&node.endpoint).await;
    let create = || PbOp::Create(pb::op::Create { exclusive: false });
    let cases = [
        (requests(1, vec![create(); MAX_OPS + 1]), false),
        (requests(2, vec![create(); 1_000_000]), false),
        (requests(3, vec![create(), removes(MAX_REQUEST_KEYS + 1)]), false),
        (requests(4, vec![create(); MAX_OPS]), true),
        (requests(5, vec![removes(MAX_REQUEST_KEYS)]), true),
    ];
    for (request, is_fine) in cases {
        let id = request.id;
        session.send(vec![request.clone()]);
        let answer = session.next().await.unwrap().unwrap();
        assert_eq!(answer.id, id);
        // It is the same without a session.
        for answer in [answer, call(&node.endpoint, request).await.unwrap()] {
            match answer.body {
                Some(Answer::Reply(_)) => assert!(is_fine, "{id}"),
                Some(Answer::Error(error)) => {
                    assert_eq!((error.kind(), is_fine), (pb::ErrorKind::Invalid, false), "{id}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_loses_its_session() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::start(&folder.endpoint(), 1, |node| {
        node.service("test", service.clone()).stall_timeout(Duration::from_millis(50))
    })
    .await;
    let (mut lazy, _) = RawSession::open(&node.endpoint).await;
    lazy.send((1..=100).map(|id| asks(id, "hold-make", &MIB.to_string())).collect());
    service.until_begun(100).await;
    service.release(100);
    eventually("the session is ended", || node.server.session_count() == 0).await;
    // Calls that were begun still run to their end.
    service.until_finished(100).await;
    assert_eq!(lazy.end().await.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_at_a_bound_loses_its_session() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::start(&folder.endpoint(), 1, |node| {
        node.service("test", service.clone()).stall_timeout(Duration::from_millis(50))
    })
    .await;
    let (mut lazy, _) = RawSession::open(&node.endpoint).await;
    const ASKED: usize = 100;
    lazy.send((1..=ASKED as u64).map(|id| asks(id, "make", &MIB.to_string())).collect());
    eventually("the session is ended", || node.server.session_count() == 0).await;
    assert!(service.begun() < ASKED, "there was no room for all");
    assert_eq!(lazy.end().await.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_sending_gets_its_replies_but_must_read_them() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    const ASKED: u64 = 8;
    let answers = async |stall_timeout| {
        let node = Node::start(&folder.endpoint(), 1, |node| {
            node.service("test", service.clone()).stall_timeout(stall_timeout)
        })
        .await;
        let (mut session, _) = RawSession::open(&node.endpoint).await;
        session.send((1..=ASKED).map(|id| asks(id, "make", &MIB.to_string())).collect());
        session.say_no_more();
        (node, session)
    };
    let (node, mut lazy) = answers(Duration::from_millis(50)).await;
    eventually("the session is ended", || node.server.session_count() == 0).await;
    assert_eq!(lazy.end().await.unwrap_err().code(), Code::ResourceExhausted);
    drop(lazy);
    node.stop().await.unwrap().unwrap();

    let (node, mut reader) = answers(LONG).await;
    for id in 1..=ASKED {
        assert_eq!(reader.next().await.unwrap().unwrap().id, id);
    }
    reader.end().await.unwrap();
    eventually("the session is ended", || node.server.session_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversize_message_is_refused_at_the_client() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let error = ask(&session, "echo", vec![0; MAX_MESSAGE_BYTES]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = ask(&session, "make", MAX_MESSAGE_BYTES.to_string()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    let largest = MAX_MESSAGE_BYTES - 100;
    assert_eq!(ask(&session, "echo", vec![7; largest]).await.unwrap().len(), largest);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversize_batch_ends_its_session_only() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let bystander = connect(&node.endpoint).await;
    let (mut session, _) = RawSession::open(&node.endpoint).await;
    session.send(vec![asks(1, "echo", &"x".repeat(MAX_BATCH_BYTES))]);
    assert_eq!(session.end().await.unwrap_err().code(), Code::OutOfRange);

    let (mut session, _) = RawSession::open(&node.endpoint).await;
    session.send(vec![Default::default(); MAX_BATCH_MESSAGES + 1]);
    assert_eq!(session.end().await.unwrap_err().code(), Code::OutOfRange);
    ask(&bystander, "echo", "").await.unwrap();
}

/// The reply has many short entries. The entries alone would fit into a message, but their framing
/// makes the reply too large.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_reply_is_too_large_is_not_committed() {
    let folder = SocketFolder::new();
    let store = MemoryStore::plain();
    let node = Node::of_store(&folder.endpoint(), &store).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    let entry = |n: usize| MapEntry { key: n.to_string().into(), value: Bytes::new() };
    let entries = (0..MAX_MAP_RANGE_ENTRIES).map(entry).collect();
    store.submit(request("data/a", Op::MapSet { entries })).await.unwrap();
    let of_all = |times: usize| {
        let all = ops::map_range("", "", MAX_MAP_RANGE_ENTRIES as u32);
        let ops = [vec![ops::append("x")], vec![all; times]].concat();
        Request::new(object("data/a"), ops).unwrap()
    };
    let most = MAX_REPLY_ENTRIES / MAX_MAP_RANGE_ENTRIES;
    remote.submit(of_all(most)).await.unwrap();
    let error = remote.submit(of_all(most + 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    let content = store.submit(request("data/a", ops::read_all())).await.unwrap().results;
    assert_eq!(content, [ops::data("x")]);
}
