//! Tests of lost connections. Each call either has a certain outcome, or fails with an error that
//! says that the outcome is unknown.

use std::sync::Arc;

use nacre_conformance::faults::{Fault, scripted};
use nacre_conformance::{FaultyStore, MemoryStore, ops, wait};
use nacre_object::{ErrorKind, OpResult, Store};
use nacre_wire::{RemoteStore, Session, SessionOptions};

use crate::harness::{
    LONG, Node, SocketFolder, TestService, ask, asking, connect, eventually, request,
};
use crate::proxy::Proxy;

/// A node whose store holds operations, behind a wire that can be cut.
struct Setup {
    store: FaultyStore,
    proxy: Proxy,
    remote: RemoteStore,
    _node: Node,
    _place: SocketFolder,
}

impl Setup {
    async fn new() -> Self {
        let folder = SocketFolder::new();
        let store = FaultyStore::over(Arc::new(MemoryStore::plain()));
        let served = Arc::new(store.clone());
        let node = Node::start(&folder.endpoint(), 1, |node| node.store(served)).await;
        let proxy = Proxy::start(&folder.named("proxy"), &node.endpoint);
        let remote = RemoteStore::new(connect(&folder.named("proxy")).await);
        Self { store, proxy, remote, _node: node, _place: folder }
    }

    async fn append(&self, text: &'static str) -> nacre_object::Result<()> {
        self.remote.submit(request("data/a", ops::append(text))).await.map(drop)
    }

    async fn content(&self) -> Vec<OpResult> {
        self.remote.submit(request("data/a", ops::read_all())).await.unwrap().results
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_in_flight_is_sent_again_after_a_break() {
    let setup = Setup::new().await;
    setup.append("x").await.unwrap();
    setup.store.follow(scripted([Some(Fault::Hold)]));
    let cut = async {
        setup.store.wait_until_held(1).await;
        setup.proxy.cut();
    };
    let (content, ()) = tokio::join!(setup.content(), cut);
    assert_eq!(content, [ops::data("x")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_flight_is_not_repeated_after_a_break() {
    let setup = Setup::new().await;
    setup.store.follow(scripted([Some(Fault::Hold)]));
    let cut = async {
        setup.store.wait_until_held(1).await;
        setup.proxy.cut();
    };
    let (appended, ()) = tokio::join!(setup.append("x"), cut);
    let error = appended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.object(), Some("data/a"));
    // Its client is gone, but it was begun.
    setup.store.release(1);
    let is_back = async || setup.remote.submit(request("data/a", ops::read_all())).await.is_ok();
    wait::eventually("the node is reached again", is_back).await;
    assert_eq!(setup.content().await, [ops::data("x")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_not_sent_waits_for_the_node() {
    let folder = SocketFolder::new();
    let session = Session::open(folder.endpoint(), SessionOptions::default());
    assert_eq!((session.node(), session.is_connected()), (None, false));
    let (early, late) = (asking(&session, "record", "a"), asking(&session, "record", "b"));
    let service = TestService::new();
    let _node = Node::of_service(&folder.endpoint(), &service).await;
    assert_eq!(early.await.unwrap().unwrap(), "a");
    assert_eq!(late.await.unwrap().unwrap(), "b");
    assert_eq!(service.recorded().len(), 2);
}

#[tokio::test]
async fn without_a_node_calls_fail_after_the_patience_of_the_session() {
    let folder = SocketFolder::new();
    let patience = std::time::Duration::from_millis(20);
    let options = SessionOptions { patience, ..SessionOptions::default() };
    let session = Session::open(folder.endpoint(), options.clone());
    let error = ask(&session, "echo", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("No such file"), "{error}");
    let error = Session::connect(folder.endpoint(), options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_finishes_begun_requests_and_begins_no_others() {
    let folder = SocketFolder::new();
    let old = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &old).await;
    let session = connect(&node.endpoint).await;
    assert_eq!(session.node().unwrap().incarnation, 1);
    let begun = asking(&session, "hold", "begun");
    old.until_begun(1).await;
    let stopped = node.stop();
    session.until_connected(false).await;
    let waiting = asking(&session, "record", "waiting");
    old.release(1);
    assert_eq!(begun.await.unwrap().unwrap(), "begun");
    stopped.await.unwrap().unwrap();
    assert!(!folder.endpoint().path().unwrap().exists());

    let new = TestService::new();
    let _node = Node::start(&folder.endpoint(), 2, |node| node.service("test", new.clone())).await;
    assert_eq!(waiting.await.unwrap().unwrap(), "waiting");
    assert_eq!(session.node().unwrap().incarnation, 2);
    assert_eq!((old.recorded().len(), new.recorded().len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_breaks_lose_no_read_and_repeat_no_write() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let proxy = Proxy::start(&folder.named("proxy"), &node.endpoint);
    let session = connect(&folder.named("proxy")).await;
    let cutting = tokio::spawn({
        let service = service.clone();
        async move {
            for cut in 1..=20 {
                service.until_begun(cut * 50).await;
                proxy.cut();
            }
            proxy
        }
    });
    let mut acknowledged = 0;
    let mut unknown = 0;
    let mut number = 0;
    while !cutting.is_finished() {
        let batch = (number..number + 20).map(|number: u64| {
            let input = number.to_string();
            let session = session.clone();
            async move {
                session.query("test", "echo", input.clone().into(), LONG).await.unwrap();
                ask(&session, "record", input).await
            }
        });
        number += 20;
        for result in futures::future::join_all(batch).await {
            match result {
                Ok(_) => acknowledged += 1,
                Err(error) if error.kind() == ErrorKind::Unavailable => unknown += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let mut recorded = service.recorded();
    recorded.sort();
    let count = recorded.len();
    recorded.dedup();
    assert_eq!(recorded.len(), count, "a write happened twice");
    assert!((acknowledged..=acknowledged + unknown).contains(&count));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_node_is_noticed() {
    let folder = SocketFolder::new();
    let keep_alive = nacre_wire::KeepAlive {
        interval: std::time::Duration::from_millis(50),
        timeout: std::time::Duration::from_millis(50),
    };
    let service = TestService::new();
    let node = Node::start(&folder.endpoint(), 1, |node| {
        node.service("test", service.clone()).keep_alive(keep_alive)
    })
    .await;
    let proxy = Proxy::start(&folder.named("proxy"), &node.endpoint);
    let options = SessionOptions { keep_alive, ..SessionOptions::default() };
    let session = Session::connect(folder.named("proxy"), options).await.unwrap();
    let held = asking(&session, "hold", "");
    service.until_begun(1).await;
    proxy.set_alive(false);
    assert_eq!(held.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    // The server finds out as well, and finishes what it began.
    service.release(1);
    eventually("the server forgets the session", || node.server.session_count() == 0).await;
    proxy.set_alive(true);
    assert_eq!(ask(&session, "echo", "back").await.unwrap(), "back");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_closes_the_session() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let session = connect(&node.endpoint).await;
    let other = session.clone();
    drop(session);
    ask(&other, "echo", "").await.unwrap();
    assert_eq!(node.server.session_count(), 1);
    drop(other);
    eventually("the session is gone", || node.server.session_count() == 0).await;
    eventually("and its connection", || node.server.connection_count() == 0).await;
}
