//! `StockClient`: a client that knows nothing about routes. It uses only gRPC and the `.proto`
//! files, and no other code of nacre.

use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use nacre_object::{Error, ErrorKind, Result};
use nacre_protocol::decode;
use nacre_protocol::proto::op::{Op, Read, Write};
use nacre_protocol::proto::{
    self as pb, ClientMessage, ServerMessage, client_message, op_result, server_message,
};
use tokio::net::UnixStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const CALL: PathAndQuery = PathAndQuery::from_static("/nacre.v1.Nacre/Call");

/// A connection to one node. Cheap to clone.
#[derive(Clone)]
pub(super) struct StockClient(Channel);

impl StockClient {
    /// Connects to a node's socket when it is first needed.
    pub fn new(socket: PathBuf) -> Self {
        let connect = move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_static("http://localhost");
        Self(endpoint.connect_with_connector_lazy(tower::service_fn(connect)))
    }

    /// Writes bytes of an object of the pool `data`.
    pub async fn write(&self, object: &str, offset: u64, data: bytes::Bytes) -> Result<()> {
        self.call(object, Op::Write(Write { offset, data })).await.map(drop)
    }

    /// Reads bytes of an object of the pool `data`.
    pub async fn read(&self, object: &str, offset: u64, length: u64) -> Result<bytes::Bytes> {
        let reply = self.call(object, Op::Read(Read { offset, length })).await?;
        match reply.results.into_iter().next().and_then(|result| result.result) {
            Some(op_result::Result::Data(data)) => Ok(data),
            _ => Err(Error::corrupt("the node answered a read without data")),
        }
    }

    async fn call(&self, object: &str, op: Op) -> Result<pb::ObjectReply> {
        let request = pb::ObjectRequest {
            pool: super::POOL.to_owned(),
            object: object.to_owned(),
            snapshot: String::new(),
            ops: vec![pb::Op { op: Some(op) }],
        };
        let body = Some(client_message::Body::Request(request));
        let message = ClientMessage { id: 1, body, ..ClientMessage::default() };
        let broken = |status: tonic::Status| Error::new(ErrorKind::Unavailable, status.to_string());
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.map_err(|cause| Error::unavailable(cause.to_string()))?;
        let codec = ProstCodec::<ClientMessage, ServerMessage>::default();
        let answer = grpc.unary(Request::new(message), CALL, codec).await.map_err(broken)?;
        match answer.into_inner().body {
            Some(server_message::Body::Reply(reply)) => Ok(reply),
            Some(server_message::Body::Error(error)) => Err(decode::error(*error)),
            _ => Err(Error::corrupt(
                "the node answered an object request with something else than a reply",
            )),
        }
    }
}
