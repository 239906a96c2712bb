//! Watches, which outlive connections.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use nacre_conformance::{MemoryStore, ops};
use nacre_object::{ErrorKind, Store, Watch, WatchEvent};
use nacre_wire::limits::MAX_WATCHES;
use nacre_wire::{RemoteStore, Session, SessionOptions};

use crate::harness::{LONG, Node, SocketFolder, TestService, connect, object, request, told};
use crate::proxy::Proxy;

fn said(payload: &'static str) -> WatchEvent {
    WatchEvent::Notified { payload: payload.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_survives_its_connection_and_reports_that_it_may_have_missed_events() {
    let folder = SocketFolder::new();
    let store = MemoryStore::plain();
    let node = Node::of_store(&folder.endpoint(), &store).await;
    let proxy = Proxy::start(&folder.named("proxy"), &node.endpoint);
    let remote = RemoteStore::new(connect(&folder.named("proxy")).await);
    let id = object("data/a");
    let mut watch = remote.watch(&id).await.unwrap();
    store.notify(&id, "before".into()).await.unwrap();
    assert_eq!(told(&mut watch).await, Some(said("before")));
    for _ in 0..3 {
        proxy.cut();
        assert_eq!(told(&mut watch).await, Some(WatchEvent::Lost));
        // From here on nothing is missed.
        let reply = store.submit(request("data/a", ops::append("x"))).await.unwrap();
        assert_eq!(told(&mut watch).await, Some(WatchEvent::Changed { version: reply.version }));
    }
    assert!(watch.next().now_or_never().is_none(), "no more was said");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_survives_its_node() {
    let folder = SocketFolder::new();
    let store = MemoryStore::plain();
    let node = Node::of_store(&folder.endpoint(), &store).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    let mut watches = Vec::new();
    for number in 0..20 {
        watches.push(remote.watch(&object(&format!("data/{number}"))).await.unwrap());
    }
    node.stop().await.unwrap().unwrap();
    let _node = Node::of_store(&folder.endpoint(), &store).await;
    for watch in &mut watches {
        assert_eq!(told(watch).await, Some(WatchEvent::Lost));
    }
    remote.notify(&object("data/7"), "hello".into()).await.unwrap();
    assert_eq!(told(&mut watches[7]).await, Some(said("hello")));
    assert!(watches[8].next().now_or_never().is_none(), "that was for another");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_refused_too_many_watches_until_some_end() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &MemoryStore::plain()).await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    let id = object("data/a");
    let mut watches = Vec::new();
    for _ in 0..MAX_WATCHES {
        watches.push(remote.watch(&id).await.unwrap());
    }
    let error = remote.watch(&id).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    watches.pop();
    let mut last = remote.watch(&id).await.unwrap();
    remote.notify(&id, "all".into()).await.unwrap();
    assert_eq!(told(&mut last).await, Some(said("all")));
    assert_eq!(told(&mut watches[0]).await, Some(said("all")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_answer_is_not_taken_ends() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &MemoryStore::plain()).await;
    let session = connect(&node.endpoint).await;
    let id = object("data/a");
    for _ in 0..=MAX_WATCHES {
        let mut watch = Box::pin(session.watch(&id, LONG));
        // Seldom the answer is there already, and taken.
        let taken = watch.as_mut().now_or_never();
        assert!(taken.is_none_or(|watch| watch.is_ok()), "none of them is kept");
        // What is answered later tells that the watch was answered before.
        session.notify(&id, Bytes::new(), LONG).await.unwrap();
    }
    assert!(session.watch(&id, LONG).await.is_ok(), "none of them is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_its_session() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &MemoryStore::plain()).await;
    let session = connect(&node.endpoint).await;
    let remote = RemoteStore::new(session);
    let mut watch = remote.watch(&object("data/a")).await.unwrap();
    drop(remote);
    assert_eq!(told(&mut watch).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_store_refuses_watches_and_requests_as_unsupported() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let session = Session::connect(node.endpoint.clone(), SessionOptions::default()).await.unwrap();
    let remote = RemoteStore::new(session);
    let error = remote.watch(&object("data/a")).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = remote.submit(request("data/a", ops::read_all())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
