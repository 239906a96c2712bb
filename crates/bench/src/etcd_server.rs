//! A real etcd beside ours: Debian's `etcd-server`, on loopback with its data in the scratch folder.
//!
//! The messages are the part of etcd's published protocol (`rpc.proto` and `kv.proto`) that a put
//! and a watch need. Fields that are left out are skipped when a message is decoded.

use std::net::TcpListener;
use std::path::Path;

use nacre_object::{Error, Result};
use prost::Message;
use tokio::process::{Child, Command};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use crate::server_process;

/// A running server; it ends with this value.
#[derive(Debug)]
pub(crate) struct EtcdServer {
    endpoint: Endpoint,
    process: Child,
}

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct WatchResponse {
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(message, repeated, tag = "11")]
    events: Vec<EtcdEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct EtcdEvent {
    #[prost(message, optional, tag = "2")]
    entry: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

impl EtcdServer {
    /// Starts an etcd of one member with its default settings. It syncs each put before it answers,
    /// as nacre does.
    ///
    /// # Errors
    /// `Unavailable` if the server does not start. If etcd is not installed, the error says what to
    /// install.
    pub async fn start(folder: &Path) -> Result<Self> {
        let [client, peer] = [free_address()?, free_address()?];
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"]);
        let process = server_process::spawn(&mut command, "etcd-server")?;
        let endpoint = Endpoint::from_shared(client).map_err(failed)?.tcp_nodelay(true);
        let server = Self { endpoint, process };
        // A put succeeds as soon as the server has a leader.
        server_process::until_ready("etcd", || server.put_once()).await?;
        Ok(server)
    }

    async fn put_once(&self) -> Result<()> {
        self.connect().await?.put("ready", "").await
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn connect(&self) -> Result<EtcdClient> {
        Ok(EtcdClient(Grpc::new(self.endpoint.connect().await.map_err(failed)?)))
    }

    /// Ends the server and waits until it is gone.
    pub async fn stop(mut self) {
        // A server that ended by itself has already failed the bench.
        let _ = self.process.kill().await;
    }
}

/// A connection to etcd.
#[derive(Debug)]
pub(crate) struct EtcdClient(Grpc<Channel>);

impl EtcdClient {
    /// Gives a key a value, durably.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.0.ready().await.map_err(failed)?;
        let request = PutRequest { key: key.into(), value: value.into() };
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Put");
        let codec = ProstCodec::<PutRequest, PutResponse>::default();
        self.0.unary(Request::new(request), path, codec).await.map(drop).map_err(failed)
    }

    /// Watches a key from now on.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn watch(&mut self, key: &str) -> Result<EtcdWatch> {
        self.0.ready().await.map_err(failed)?;
        let create = Some(WatchCreateRequest { key: key.into() });
        // The stream of requests stays open: etcd ends a watch whose client says no more.
        let requests = futures::stream::once(async { WatchRequest { create } });
        let requests = futures::StreamExt::chain(requests, futures::stream::pending());
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let opened = self.0.streaming(Request::new(requests), path, codec).await.map_err(failed)?;
        let mut watch = EtcdWatch(opened.into_inner());
        match watch.answer().await?.created {
            true => Ok(watch),
            false => Err(Error::unavailable("etcd did not begin the watch")),
        }
    }
}

/// A watch of a key in etcd.
#[derive(Debug)]
pub(crate) struct EtcdWatch(Streaming<WatchResponse>);

impl EtcdWatch {
    async fn answer(&mut self) -> Result<WatchResponse> {
        let answer = self.0.message().await.map_err(failed)?;
        answer.ok_or_else(|| Error::unavailable("etcd ended the watch"))
    }

    /// The values that the key got next.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn next(&mut self) -> Result<Vec<Vec<u8>>> {
        let events = self.answer().await?.events;
        Ok(events.into_iter().filter_map(|event| Some(event.entry?.value)).collect())
    }
}

/// A URL on loopback with a port that is free now. Nothing keeps it free, so the server may fail to
/// start.
fn free_address() -> Result<String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.map_err(|cause| {
        Error::unavailable(format!("the machine has no free port for etcd: {cause}"))
    })?;
    Ok(format!("http://{address}"))
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("etcd: {cause}"))
}
