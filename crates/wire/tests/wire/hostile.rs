//! Tests that the server survives everything that peers send to its sockets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use nacre_clock::Random;
use nacre_object::{
    Capabilities, ErrorKind, ListPage, ListRequest, ObjectId, Op, Reply, Request, Result, Store,
    Watch, WatchEvent, WatchStream,
};
use nacre_wire::limits::{DRAIN_TIMEOUT, MAX_ENTITY_SESSIONS, MAX_IDLE_CONNECTIONS};
use nacre_wire::proto::server_message::Body as Answer;
use nacre_wire::{Authority, Caller, Endpoint, Listener, RemoteStore, Server, Service, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{
    Node, SocketFolder, TestService, ask, connect, eventually, object, request, told,
};
use crate::raw::{RawSession, asks, call, channel, hello, served};

/// The connection preface of an HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Sends bytes and reads until the server closes the connection.
async fn send(endpoint: &Endpoint, bytes: &[u8]) {
    let mut stream = UnixStream::connect(endpoint.path().unwrap()).await.unwrap();
    // The server may close before it has all.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_closes_its_connection_only() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let bystander = connect(&node.endpoint).await;
    let mut random = Random::seeded(1);
    for round in 0..50 {
        let noise: Vec<u8> = (0..random.below(5000)).map(|_| random.next_u64() as u8).collect();
        match round % 3 {
            0 => send(&node.endpoint, &noise).await,
            1 => send(&node.endpoint, &[PREFACE, &noise[..]].concat()).await,
            _ => send(&node.endpoint, b"GET / HTTP/1.1\r\n\r\n").await,
        }
    }
    assert_eq!(ask(&bystander, "echo", "here").await.unwrap(), "here");
    eventually("all the others are closed", || node.server.connection_count() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_begun_change_is_completed_although_its_client_is_killed() {
    let (_place, service, node, session) = served().await;
    session.send((1..=100).map(|id| asks(id, "hold", "")).collect());
    service.until_begun(100).await;
    drop(session);
    eventually("its connection is closed", || node.server.connection_count() == 0).await;
    service.release(100);
    service.until_finished(100).await;
    eventually("its session is forgotten", || node.server.session_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_only_waits_ends_with_its_client() {
    let (_place, service, node, session) = served().await;
    session.send((1..=100).map(|id| asks(id, "wait", "")).collect());
    service.until_begun(100).await;
    drop(session);
    service.until_given_up(100).await;
    eventually("its session is forgotten", || node.server.session_count() == 0).await;
    // So it is without a session.
    let endpoint = node.endpoint.clone();
    let waiting = tokio::spawn(async move { call(&endpoint, asks(1, "wait", "")).await });
    service.until_begun(101).await;
    waiting.abort();
    service.until_given_up(101).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_ends_long_polls_and_finishes_other_calls() {
    let (_place, service, node, mut session) = served().await;
    session.send(vec![asks(1, "wait", ""), asks(2, "hold", "kept")]);
    let endpoint = node.endpoint.clone();
    let polling = tokio::spawn(async move { call(&endpoint, asks(1, "wait", "")).await });
    service.until_begun(3).await;
    let stopped = node.stop();
    let error = match polling.await.unwrap().unwrap().body {
        Some(Answer::Error(error)) => error,
        other => panic!("no error but {other:?}"),
    };
    assert!(error.message.contains("is stopping"), "{error:?}");
    service.release(1);
    let mut ended = Vec::new();
    while let Some(message) = session.next().await.unwrap() {
        match message.body {
            Some(Answer::Error(error)) => assert!(error.message.contains("is stopping")),
            Some(Answer::Answer(answer)) => assert_eq!(answer.output, "kept"),
            _ => continue,
        }
        ended.push(message.id);
    }
    ended.sort_unstable();
    assert_eq!(ended, [1, 2]);
    stopped.await.unwrap().unwrap();
}

/// Half of the time that a stopping node gives to calls that were begun.
const WITHOUT_DRAINING: Duration = Duration::from_secs(DRAIN_TIMEOUT.as_secs() / 2);

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_never_ends_does_not_keep_a_node_from_stopping() {
    let (_place, _service, node, _session) = served().await;
    let request = HealthCheckRequest { service: nacre_wire::SERVICE_NAME.to_owned() };
    let mut health = HealthClient::new(channel(&node.endpoint).await);
    let mut states = health.watch(request).await.unwrap().into_inner();
    assert!(states.message().await.unwrap().is_some());
    let stopped = tokio::time::timeout(WITHOUT_DRAINING, node.stop());
    stopped.await.expect("the watch keeps the node").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_outlives_its_client_does_not_keep_its_session_slot() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    for count in 1..=MAX_ENTITY_SESSIONS {
        let (session, _) = RawSession::open(&node.endpoint).await;
        session.send(vec![asks(1, "hold", ""), asks(2, "wait", "")]);
        service.until_begun(2 * count).await;
        drop(session);
    }
    eventually("no client is there", || node.server.session_count() == 0).await;
    assert_eq!(ask(&connect(&node.endpoint).await, "echo", "here").await.unwrap(), "here");
    // Begun work goes on.
    service.release(MAX_ENTITY_SESSIONS);
    service.until_finished(MAX_ENTITY_SESSIONS + 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_or_half_spoken_connection_is_closed() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::start(&folder.endpoint(), 1, |builder| {
        builder.service("test", service.clone()).handshake_timeout(Duration::from_millis(200))
    })
    .await;
    let bystander = connect(&node.endpoint).await;
    let mut silent = Vec::new();
    for beginning in [&b""[..], b"P", PREFACE, &[PREFACE, SETTINGS].concat(), &[0; 9]] {
        let mut stream = UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        silent.push(stream);
    }
    for stream in &mut silent {
        // It ends, however it does.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    // A stream without a hello opens no session.
    let error =
        RawSession::begin(&node.endpoint, vec![]).await.err().expect("no hello, no session");
    assert!([Code::DeadlineExceeded, Code::InvalidArgument].contains(&error.code()), "{error}");
    eventually("only the bystander is connected", || node.server.connection_count() == 1).await;
    assert_eq!(node.server.session_count(), 1);
    assert_eq!(ask(&bystander, "echo", "here").await.unwrap(), "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_handshake_is_closed() {
    let (authority, _) = Authority::create().unwrap();
    let own = authority.issue(&"node.a".parse().unwrap(), Usage::Node).unwrap();
    let any = Endpoint::tls("127.0.0.1:0").unwrap();
    let listener = Listener::default().and_tls(&any, &own).await.unwrap();
    let endpoint = listener.endpoints().remove(0).to_string();
    let address = endpoint.strip_prefix("tls:").unwrap();
    let server = Server::builder("a".parse().unwrap(), 1)
        .handshake_timeout(Duration::from_millis(200))
        .build();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
    let mut random = Random::seeded(2);
    let mut streams = Vec::new();
    for round in 0..60 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let noise: Vec<u8> = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
        // A TLS record that announces a long hello, a plain HTTP/2 preface, noise, or nothing.
        let beginning: &[u8] = match round % 4 {
            0 => &[22, 3, 1, 0x3f, 0xff, 1, 0],
            1 => PREFACE,
            2 => &noise,
            _ => &[],
        };
        let _ = stream.write_all(beginning).await;
        streams.push(stream);
    }
    for stream in &mut streams {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    eventually("none is connected", || server.connection_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_silent_connections_keep_no_client_out() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let bystander = connect(&node.endpoint).await;
    let mut idle = Vec::new();
    for _ in 0..3 * MAX_IDLE_CONNECTIONS {
        let mut stream = UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap();
        let _ = stream.write_all(b"P").await;
        idle.push(stream);
    }
    // Meanwhile other clients are served: first earlier ones, then a new one.
    assert_eq!(ask(&bystander, "echo", "here").await.unwrap(), "here");
    let new = connect(&node.endpoint).await;
    assert_eq!(ask(&new, "echo", "me too").await.unwrap(), "me too");
    let bound = MAX_IDLE_CONNECTIONS + 2;
    eventually("those who waited longest are gone", || node.server.connection_count() <= bound)
        .await;
    assert!(node.server.connection_count() >= MAX_IDLE_CONNECTIONS);
    drop(idle);
    eventually("all of them are gone", || node.server.connection_count() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_entity_is_refused_too_many_sessions() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let mut sessions = Vec::new();
    for _ in 0..MAX_ENTITY_SESSIONS {
        sessions.push(RawSession::open(&node.endpoint).await.0);
    }
    let error =
        RawSession::begin(&node.endpoint, vec![hello(1)]).await.err().expect("one too many");
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    sessions.pop();
    eventually("a place is free", || node.server.session_count() < MAX_ENTITY_SESSIONS).await;
    RawSession::open(&node.endpoint).await;
}

/// A request for a session, and its reset, as frames of stream `id`.
fn rapid_reset(id: u32) -> Vec<u8> {
    let path = b"/nacre.v1.Nacre/Session";
    let mut headers = vec![0x83, 0x86, 0x04, path.len() as u8];
    headers.extend(path);
    let mut frames = vec![0, 0, headers.len() as u8, 1, 4];
    frames.extend(id.to_be_bytes());
    frames.extend(headers);
    frames.extend([0, 0, 4, 3, 0]);
    frames.extend(id.to_be_bytes());
    frames.extend(8_u32.to_be_bytes());
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_cancelled_requests_loses_its_connection() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let bystander = connect(&node.endpoint).await;
    let (mut reads, mut writes) =
        UnixStream::connect(node.endpoint.path().unwrap()).await.unwrap().into_split();
    let flood = tokio::spawn(async move {
        let mut id = 1;
        let mut sent = writes.write_all(&[PREFACE, SETTINGS].concat()).await;
        while sent.is_ok() {
            sent = writes.write_all(&rapid_reset(id)).await;
            id += 2;
        }
    });
    let mut said = Vec::new();
    let _ = reads.read_to_end(&mut said).await;
    flood.await.unwrap();
    assert_eq!(ask(&bystander, "echo", "here").await.unwrap(), "here");
    eventually("it lost its connection", || node.server.connection_count() == 1).await;
}

/// A store and a service that panic on certain requests.
#[derive(Debug)]
struct Panics;

#[async_trait]
impl Service for Panics {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "at-once" => panic!("at once, as asked"),
            "later" => {
                tokio::task::yield_now().await;
                panic!("later, as asked")
            }
            _ => Ok(input),
        }
    }
}

#[async_trait]
impl Store for Panics {
    async fn submit(&self, _: Request) -> Result<Reply> {
        panic!("the store, as asked")
    }

    async fn list(&self, _: ListRequest) -> Result<ListPage> {
        panic!("the store, as asked")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }
}

#[async_trait]
impl Watch for Panics {
    async fn watch(&self, _: &ObjectId) -> Result<WatchStream> {
        let first = futures::stream::once(async { WatchEvent::Lost });
        Ok(first.chain(futures::stream::once(async { panic!("the watch, as asked") })).boxed())
    }

    async fn notify(&self, _: &ObjectId, _: Bytes) -> Result<()> {
        panic!("the watch, as asked")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_only_its_own_message() {
    let folder = SocketFolder::new();
    let panics = Arc::new(Panics);
    let node = Node::start(&folder.endpoint(), 1, |builder| {
        builder.store(panics.clone()).watch(panics.clone()).service("test", panics.clone())
    })
    .await;
    let session = connect(&node.endpoint).await;
    let store = RemoteStore::new(session.clone());
    for _ in 0..3 {
        for method in ["at-once", "later"] {
            let error = ask(&session, method, "").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
        }
        let error = store.submit(request("data/a", Op::Stat)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
        let error = store.notify(&object("data/a"), Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
        let mut watch = store.watch(&object("data/a")).await.unwrap();
        assert_eq!(told(&mut watch).await, Some(WatchEvent::Lost));
        assert_eq!(told(&mut watch).await, None, "the watch has ended");
    }
    assert_eq!(ask(&session, "echo", "still here").await.unwrap(), "still here");
    assert_eq!(node.server.session_count(), 1);
    assert_eq!(node.server.connection_count(), 1);
    drop((session, store));
    eventually("its session is forgotten", || node.server.session_count() == 0).await;
    eventually("its connection is closed", || node.server.connection_count() == 0).await;
    node.stop().await.unwrap().unwrap();
}
