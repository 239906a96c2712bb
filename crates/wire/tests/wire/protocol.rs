//! The rules of the `.proto` files, as a foreign client meets them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_conformance::MemoryStore;
use nacre_object::{Error, ErrorKind, FaultSite, Result, TargetName};
use nacre_wire::proto::client_message::Body as Asked;
use nacre_wire::proto::op::Op;
use nacre_wire::proto::op_result::Result as OpResult;
use nacre_wire::proto::server_message::Body as Answer;
use nacre_wire::proto::{self as pb, ClientMessage};
use nacre_wire::{Caller, Service};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::harness::{Node, SocketFolder, TestService, ask, connect};
use crate::raw::{RawSession, asks, call, channel, hello, message};

fn transaction(ops: Vec<Op>) -> ClientMessage {
    let ops = ops.into_iter().map(|op| pb::Op { op: Some(op) }).collect();
    let request = pb::ObjectRequest {
        pool: "data".to_owned(),
        object: "a".to_owned(),
        snapshot: String::new(),
        ops,
    };
    message(7, Asked::Request(request))
}

fn kind(answer: Option<Answer>) -> pb::ErrorKind {
    match answer {
        Some(Answer::Error(error)) => error.kind(),
        other => panic!("no error but {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_with_one_hello_in_the_right_version() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let refused = async |first| match RawSession::begin(&node.endpoint, first).await {
        Ok(mut session) => session.end().await.unwrap_err().code(),
        Err(status) => status.code(),
    };
    assert_eq!(refused(vec![asks(1, "echo", "")]).await, Code::InvalidArgument);
    assert_eq!(refused(vec![]).await, Code::InvalidArgument);
    assert_eq!(refused(vec![hello(2)]).await, Code::FailedPrecondition);
    assert_eq!(refused(vec![hello(1), hello(1)]).await, Code::InvalidArgument);
    let (_session, welcome) = RawSession::open(&node.endpoint).await;
    assert_eq!((welcome.protocol_version, welcome.node_name.as_str()), (1, "node"));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_may_come_with_the_hello() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let first = vec![hello(1), asks(1, "echo", "a"), asks(2, "echo", "b")];
    let mut session = RawSession::begin(&node.endpoint, first).await.unwrap();
    for id in 0..=2 {
        assert_eq!(session.next().await.unwrap().unwrap().id, id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_is_answered_with_its_error() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &MemoryStore::plain()).await;
    let (mut session, _) = RawSession::open(&node.endpoint).await;
    session.send(vec![
        ClientMessage { id: 1, ..ClientMessage::default() },
        ClientMessage { id: 2, ..transaction(vec![]) },
        ClientMessage { id: 3, ..transaction(vec![Op::Rollback("not/a/name".to_owned())]) },
        asks(4, "echo", ""),
        ClientMessage { id: 5, ..transaction(vec![Op::Stat(pb::op::Stat {})]) },
    ]);
    let expected = [
        pb::ErrorKind::Unsupported,
        pb::ErrorKind::Invalid,
        pb::ErrorKind::Invalid,
        pb::ErrorKind::Unsupported,
        pb::ErrorKind::NotFound,
    ];
    for (index, expected) in expected.into_iter().enumerate() {
        let answer = session.next().await.unwrap().unwrap();
        assert_eq!((answer.id, kind(answer.body)), (index as u64 + 1, expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_call_needs_no_session() {
    let folder = SocketFolder::new();
    let node = Node::of_store(&folder.endpoint(), &MemoryStore::plain()).await;
    let ops = vec![Op::Append("hello".into()), Op::Read(pb::op::Read { offset: 1, length: 3 })];
    let answer = call(&node.endpoint, transaction(ops)).await.unwrap();
    assert_eq!(answer.id, 7);
    let Some(Answer::Reply(reply)) = answer.body else { panic!("{answer:?}") };
    let results: Vec<_> = reply.results.into_iter().map(|result| result.result).collect();
    assert_eq!(results, [Some(OpResult::Offset(0)), Some(OpResult::Data("ell".into()))]);

    let watch = pb::Watch { pool: "data".to_owned(), object: "a".to_owned() };
    let answer = call(&node.endpoint, message(1, Asked::Watch(watch))).await.unwrap();
    assert_eq!(kind(answer.body), pb::ErrorKind::Invalid);
    assert_eq!(node.server.session_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_decides_which_entity_sends_a_request() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let session = connect(&node.endpoint).await;
    assert_eq!(ask(&session, "who", "").await.unwrap(), "local default client");
    let (mut raw, _) = RawSession::open(&node.endpoint).await;
    raw.send(vec![asks(1, "who", "")]);
    let answer = raw.next().await.unwrap().unwrap();
    let Some(Answer::Answer(answer)) = answer.body else { panic!("{answer:?}") };
    assert_eq!(answer.output, "local default raw");
}

struct Failing(Error);

#[async_trait]
impl Service for Failing {
    async fn ask(&self, _: &Caller, _: &str, _: Bytes) -> Result<Bytes> {
        Err(self.0.clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_arrives_with_all_its_fields() {
    let site = FaultSite {
        program: "log.entry".to_owned(),
        version: 3,
        line: Some(17),
        traceback: "append".to_owned(),
    };
    let full = Error::fault_at(site, "attempt to index nil")
        .during("call")
        .on("data/a")
        .at(&TargetName::new("storage.1").unwrap())
        .hint("look at line 17")
        .with_status(-5);
    let bare = ErrorKind::ALL.map(|kind| Error::new(kind, ""));
    for error in bare.into_iter().chain([full]) {
        let folder = SocketFolder::new();
        let failing = Arc::new(Failing(error.clone()));
        let node = Node::start(&folder.endpoint(), 1, |node| node.service("test", failing)).await;
        let back = ask(&connect(&node.endpoint).await, "", "").await.unwrap_err();
        assert_eq!(format!("{back:?}"), format!("{error:?}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_are_served() {
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let channel = channel(&node.endpoint).await;
    let request = HealthCheckRequest { service: nacre_wire::SERVICE_NAME.to_owned() };
    let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
    assert_eq!(health.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);

    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    assert!(names.contains(&nacre_wire::SERVICE_NAME.to_owned()), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_counts_the_bytes_of_its_sessions() {
    const PAYLOAD: u64 = 100_000;
    /// More than the ids, names and headers of two messages take.
    const MOST_OVERHEAD: u64 = 1_000;
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    let session = connect(&node.endpoint).await;
    ask(&session, "echo", "a").await.unwrap();
    let before = node.server.requests();
    ask(&session, "echo", vec![7; PAYLOAD as usize]).await.unwrap();
    let after = node.server.requests();
    let received = after.received_bytes - before.received_bytes;
    let sent = after.sent_bytes - before.sent_bytes;
    for bytes in [received, sent] {
        assert!((PAYLOAD..PAYLOAD + MOST_OVERHEAD).contains(&bytes), "{received} {sent}");
    }
}
