//! A client that knows nothing but the `.proto` files, and may break every rule in them.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use nacre_conformance::wait::within_deadline;
use nacre_wire::proto::client_message::Body as Asked;
use nacre_wire::proto::server_message::Body as Answer;
use nacre_wire::proto::{
    Ask, ClientBatch, ClientMessage, Hello, ServerBatch, ServerMessage, Welcome,
};
use nacre_wire::{Endpoint, SERVICE_NAME};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Uri};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::harness::{Node, SocketFolder, TestService};

/// Larger than anything these tests send or receive.
const MAX_BYTES: usize = 1 << 30;

/// A node with a service of tests, and a session of such a client with it.
pub async fn served() -> (SocketFolder, Arc<TestService>, Node, RawSession) {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let (session, _) = RawSession::open(&node.endpoint).await;
    (folder, service, node, session)
}

/// A session of such a client.
pub struct RawSession {
    outbound: mpsc::UnboundedSender<ClientBatch>,
    inbound: Streaming<ServerBatch>,
    read: std::vec::IntoIter<ServerMessage>,
}

pub async fn channel(endpoint: &Endpoint) -> Channel {
    let path = endpoint.path().unwrap().to_owned();
    tonic::transport::Endpoint::from_static("http://node")
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .unwrap()
}

/// A call without a session.
pub async fn call(endpoint: &Endpoint, message: ClientMessage) -> Result<ServerMessage, Status> {
    let mut grpc = Grpc::new(channel(endpoint).await);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::try_from(format!("/{SERVICE_NAME}/Call")).unwrap();
    let codec = ProstCodec::<ClientMessage, ServerMessage>::default();
    Ok(grpc.unary(Request::new(message), path, codec).await?.into_inner())
}

/// Asks for a session and ends its half of the stream at once.
pub async fn leave_without_a_hello(endpoint: &Endpoint) {
    let mut grpc = Grpc::new(channel(endpoint).await);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::try_from(format!("/{SERVICE_NAME}/Session")).unwrap();
    let codec = ProstCodec::<ClientBatch, ServerBatch>::default();
    let nothing = Request::new(tokio_stream::empty());
    let opened = grpc.streaming(nothing, path, codec).await;
    assert!(opened.is_err(), "no hello, no session");
}

impl RawSession {
    /// A session that begins with these messages.
    pub async fn begin(endpoint: &Endpoint, first: Vec<ClientMessage>) -> Result<Self, Status> {
        let mut grpc = Grpc::new(channel(endpoint).await)
            .max_decoding_message_size(MAX_BYTES)
            .max_encoding_message_size(MAX_BYTES);
        grpc.ready().await.unwrap();
        let path = PathAndQuery::try_from(format!("/{SERVICE_NAME}/Session")).unwrap();
        let (outbound, batches) = mpsc::unbounded_channel();
        outbound.send(ClientBatch { messages: first }).unwrap();
        let batches = Request::new(UnboundedReceiverStream::new(batches));
        let codec = ProstCodec::<ClientBatch, ServerBatch>::default();
        let inbound = grpc.streaming(batches, path, codec).await?.into_inner();
        Ok(Self { outbound, inbound, read: Vec::new().into_iter() })
    }

    /// A session that is open.
    pub async fn open(endpoint: &Endpoint) -> (Self, Welcome) {
        let mut session = Self::begin(endpoint, vec![hello(1)]).await.unwrap();
        match session.next().await.unwrap().unwrap().body {
            Some(Answer::Welcome(welcome)) => (session, welcome),
            other => panic!("no welcome but {other:?}"),
        }
    }

    pub fn send(&self, messages: Vec<ClientMessage>) {
        let _ = self.outbound.send(ClientBatch { messages });
    }

    /// Ends its half of the stream.
    pub fn say_no_more(&mut self) {
        self.outbound = mpsc::unbounded_channel().0;
    }

    /// The next message of the node; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<ServerMessage>, Status> {
        loop {
            if let Some(message) = self.read.next() {
                return Ok(Some(message));
            }
            let batch = within_deadline("what the node says", self.inbound.message());
            match batch.await? {
                Some(batch) => self.read = batch.messages.into_iter(),
                None => return Ok(None),
            }
        }
    }

    /// Reads to the end; how the node ended the session.
    pub async fn end(&mut self) -> Result<(), Status> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

pub fn message(id: u64, body: Asked) -> ClientMessage {
    ClientMessage { id, body: Some(body), ..ClientMessage::default() }
}

pub fn hello(protocol_version: u32) -> ClientMessage {
    message(
        0,
        Asked::Hello(Hello { protocol_version, client_name: "raw".to_owned(), takes_parts: false }),
    )
}

/// An ask of the service `test`.
pub fn asks(id: u64, method: &str, input: &str) -> ClientMessage {
    let input = input.to_owned().into();
    message(id, Asked::Ask(Ask { service: "test".to_owned(), method: method.to_owned(), input }))
}
