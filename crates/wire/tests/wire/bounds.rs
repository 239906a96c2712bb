//! Past a bound: back-pressure or a clear error, never growth.

use std::time::Duration;

use bytes::Bytes;
use nacre_object::ErrorKind;
use nacre_wire::limits::{
    CLIENT_ROOM_BYTES, MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, MAX_MESSAGE_BYTES, MAX_UNDER_WAY,
    REPLIES_WAITING_BYTES, STREAM_WINDOW_BYTES,
};
use tonic::Code;

use crate::harness::{Node, Place, TestService, ask, asking, connect, eventually};
use crate::raw::{RawSession, asks};

const MIB: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sends_no_more_than_it_has_room_for() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let large = Bytes::from(vec![0; 8 * MIB - 1024]);
    let count = CLIENT_ROOM_BYTES / (8 * MIB);
    let held: Vec<_> = (0..count).map(|_| asking(&session, "hold", large.clone())).collect();
    service.until_begun(count).await;
    let short = Duration::from_millis(50);
    let error = session.ask("test", "echo", large.clone(), short).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("ahead of this one"), "{error}");
    assert_eq!(service.begun(), count);
    service.release(count);
    for held in held {
        held.await.unwrap().unwrap();
    }
    assert_eq!(ask(&session, "echo", large.clone()).await.unwrap(), large);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_only_so_much_under_way() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
    let (mut greedy, _) = RawSession::open(&node.endpoint).await;
    let count = MAX_UNDER_WAY as u64 + 1000;
    greedy.send((1..=count).map(|id| asks(id, "hold", "")).collect());
    service.until_begun(MAX_UNDER_WAY).await;
    // Another session is not held up, and after it the greedy one is no further.
    ask(&connect(&node.endpoint).await, "echo", "").await.unwrap();
    assert_eq!(service.begun(), MAX_UNDER_WAY + 1);
    service.release(count as usize);
    for _ in 0..count {
        greedy.next().await.unwrap().unwrap();
    }
    assert_eq!(service.begun(), count as usize + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_not_answered() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
    let (mut lazy, _) = RawSession::open(&node.endpoint).await;
    const ASKED: u64 = 100;
    for id in 1..=ASKED {
        lazy.send(vec![asks(id, "make", &MIB.to_string())]);
    }
    // What waits in the server, what is in the windows and sockets, and one beyond each.
    let most = (REPLIES_WAITING_BYTES + STREAM_WINDOW_BYTES as usize) / MIB + 4;
    service.until_begun(REPLIES_WAITING_BYTES / MIB).await;
    let session = connect(&node.endpoint).await;
    for _ in 0..200 {
        ask(&session, "bystander", "").await.unwrap_err();
    }
    assert!(service.begun() - 200 <= most, "{} were begun", service.begun() - 200);
    for _ in 0..ASKED {
        lazy.next().await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_loses_its_session() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::start(&place.endpoint(), 1, |node| {
        node.service("test", service.clone()).stall_timeout(Duration::from_millis(50))
    })
    .await;
    let (mut lazy, _) = RawSession::open(&node.endpoint).await;
    lazy.send((1..=100).map(|id| asks(id, "hold-make", &MIB.to_string())).collect());
    service.until_begun(100).await;
    service.release(100);
    eventually("the session is ended", || node.server.session_count() == 0).await;
    // What was begun ended all the same.
    service.until_finished(100).await;
    assert_eq!(lazy.end().await.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversize_message_is_refused_where_it_is_made() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
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
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
    let bystander = connect(&node.endpoint).await;
    let (mut session, _) = RawSession::open(&node.endpoint).await;
    session.send(vec![asks(1, "echo", &"x".repeat(MAX_BATCH_BYTES))]);
    assert_eq!(session.end().await.unwrap_err().code(), Code::OutOfRange);

    let (mut session, _) = RawSession::open(&node.endpoint).await;
    session.send(vec![Default::default(); MAX_BATCH_MESSAGES + 1]);
    assert_eq!(session.end().await.unwrap_err().code(), Code::OutOfRange);
    ask(&bystander, "echo", "").await.unwrap();
}
