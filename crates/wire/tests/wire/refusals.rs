//! Each refused peer is counted once, under its reason, and reported.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nacre_object::{Error, Guard, Peer, Result, Standing};
use nacre_wire::limits::{MAX_BATCH_BYTES, MAX_ENTITY_SESSIONS, MAX_IDLE_CONNECTIONS};
use nacre_wire::{
    Authority, Endpoint, Identity, Listener, Refusal, RefusalObserver, RefusalReason, Server,
    Session, SessionOptions, Usage,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tonic::Code;

use crate::harness::{Node, SocketFolder, TestService, ask, connect, eventually};
use crate::raw::{RawSession, asks, call, hello, leave_without_a_hello};

/// Records the reported refusals.
#[derive(Default)]
struct Listening(Mutex<Vec<Refusal>>);

impl RefusalObserver for Listening {
    fn refused(&self, refusal: Refusal) {
        self.0.lock().unwrap().push(refusal);
    }
}

impl Listening {
    fn reasons(&self) -> Vec<RefusalReason> {
        self.0.lock().unwrap().iter().map(|refusal| refusal.reason).collect()
    }
}

/// Admits no peer.
#[derive(Debug)]
struct Closed;

#[async_trait]
impl Guard for Closed {
    async fn admit(&self, _: &Peer) -> Result<Arc<dyn Standing>> {
        Err(Error::denied("not on the list"))
    }
}

fn counts(server: &Server) -> Vec<(RefusalReason, u64)> {
    server.refusals().into_iter().filter(|(_, count)| *count > 0).collect()
}

async fn is_counted(server: &Server, expected: &[(RefusalReason, u64)]) {
    eventually(&format!("{expected:?}"), || counts(server) == expected).await;
}

/// A node behind TLS that admits no peer, its endpoint, and an observer of its refusals.
async fn closed_house(authority: &Authority) -> (Server, Endpoint, Arc<Listening>) {
    let own = authority.issue(&"node.a".parse().unwrap(), Usage::Node).unwrap();
    let any = Endpoint::tls("127.0.0.1:0").unwrap();
    let listener = Listener::default().and_tls(&any, &own).await.unwrap();
    let endpoint = listener.endpoints().remove(0);
    let told = Arc::new(Listening::default());
    let server = Server::builder("a".parse().unwrap(), 1)
        .handshake_timeout(Duration::from_millis(200))
        .guard(Arc::new(Closed))
        .refusal_observer(told.clone())
        .build();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
    (server, endpoint, told)
}

async fn knock(endpoint: &Endpoint, identity: Identity) {
    let options = SessionOptions {
        identity: Some(identity),
        patience: Duration::from_millis(300),
        ..SessionOptions::default()
    };
    Session::connect(endpoint.clone(), options).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reads_nothing_of_refused_peers() {
    let folder = SocketFolder::new();
    let node = Node::start(&folder.endpoint(), 1, |builder| builder.guard(Arc::new(Closed))).await;
    // None of these bytes make sense, and the node never looks.
    let error = RawSession::begin(&node.endpoint, vec![]).await.err().unwrap();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    let long = asks(1, "echo", &"x".repeat(2 * MAX_BATCH_BYTES));
    let error = call(&node.endpoint, long).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    is_counted(&node.server, &[(RefusalReason::Entity, 2)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failed_tls_handshake_is_counted_under_its_reason() {
    let (authority, _) = Authority::create().unwrap();
    let (server, endpoint, told) = closed_house(&authority).await;
    let shown = endpoint.to_string();
    let address = shown.strip_prefix("tls:").unwrap();

    // No TLS at all.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    is_counted(&server, &[(RefusalReason::Tls, 1)]).await;
    // Half open: it began and said no more.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[22, 3, 1, 0x3f, 0xff, 1, 0]).await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
    is_counted(&server, &[(RefusalReason::Tls, 1), (RefusalReason::Silence, 1)]).await;
    // This identity is the authority's, but no node admits it. Clients try again while they are
    // refused.
    knock(&endpoint, authority.issue(&"guest".parse().unwrap(), Usage::Client).unwrap()).await;
    let entities = counts(&server)[2];
    assert!(entities.0 == RefusalReason::Entity && entities.1 >= 1, "{:?}", counts(&server));
    // Of another authority.
    let (other, _) = Authority::create().unwrap();
    knock(&endpoint, other.issue(&"guest".parse().unwrap(), Usage::Client).unwrap()).await;

    let counted = server.refusals();
    let told = told.0.lock().unwrap();
    for (reason, count) in counted {
        let heard = told.iter().filter(|refusal| refusal.reason == reason).count();
        assert_eq!(heard as u64, count, "{reason:?}");
    }
    assert!(told.iter().all(|refusal| &*refusal.from == "127.0.0.1" && !refusal.text.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_a_hello_is_counted_once() {
    let folder = SocketFolder::new();
    let told = Arc::new(Listening::default());
    let node = Node::start(&folder.endpoint(), 1, |builder| {
        let builder = builder.service("test", TestService::new());
        builder.handshake_timeout(Duration::from_millis(200)).refusal_observer(told.clone())
    })
    .await;
    let raw = async || UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap();
    let mut silent = raw().await;
    let _ = silent.read_to_end(&mut Vec::new()).await;
    is_counted(&node.server, &[(RefusalReason::Silence, 1)]).await;
    let mut noisy = raw().await;
    noisy.write_all(&[0xff; 64]).await.unwrap();
    let _ = noisy.read_to_end(&mut Vec::new()).await;
    is_counted(&node.server, &[(RefusalReason::Silence, 1), (RefusalReason::Protocol, 1)]).await;
    // The client sent a request but no hello. The node counts the session as refused, and does not
    // count its connection as well.
    RawSession::begin(&node.endpoint, vec![]).await.err().expect("no hello, no session");
    eventually("it is gone", || node.server.connection_count() == 0).await;
    assert_eq!(told.reasons().len(), 3);
    assert_eq!(counts(&node.server).iter().map(|(_, count)| count).sum::<u64>(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admitted_peer_is_never_counted_as_refused() {
    let folder = SocketFolder::new();
    let node = Node::start(&folder.endpoint(), 1, |builder| {
        let builder = builder.service("test", TestService::new());
        builder.handshake_timeout(Duration::from_millis(100))
    })
    .await;
    let session = connect(&node.endpoint).await;
    ask(&session, "echo", "here").await.unwrap();
    drop(session);
    // A client that leaves by itself does not count as refused, whether it sent nothing or half a
    // message.
    drop(UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap());
    let mut leaving = UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap();
    leaving.write_all(b"PRI * HT").await.unwrap();
    drop(leaving);
    leave_without_a_hello(&node.endpoint).await;
    let (broken, _) = RawSession::open(&node.endpoint).await;
    drop(broken);
    eventually("they are gone", || node.server.connection_count() == 0).await;
    assert_eq!(counts(&node.server), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_for_exceeded_limits_are_counted() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let mut idle = Vec::new();
    for _ in 0..MAX_IDLE_CONNECTIONS + 5 {
        idle.push(UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap());
    }
    is_counted(&node.server, &[(RefusalReason::Crowd, 5)]).await;
    drop(idle);
    eventually("they are gone", || node.server.connection_count() == 0).await;
    let mut sessions = Vec::new();
    for _ in 0..MAX_ENTITY_SESSIONS {
        sessions.push(RawSession::open(&node.endpoint).await.0);
    }
    RawSession::begin(&node.endpoint, vec![hello(1)]).await.err().expect("one too many");
    is_counted(&node.server, &[(RefusalReason::Crowd, 5), (RefusalReason::Sessions, 1)]).await;
}
