//! One connection to a node: it connects, performs the handshake and reads messages.

use std::io;
use std::sync::Arc;

use futures::StreamExt;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nacre_object::{Capabilities, EntityName, Error, NodeName, Result};
use prost::Message;
use rustix::process::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status, Streaming};
use tower::service_fn;

use super::call::encode;
use super::pace::ClientPace;
use super::session::NodeInfo;
use super::shared::Shared;
use crate::codec::{Batch, BatchCodec};
use crate::endpoint::Address;
use crate::identity::Connector;
use crate::limits::{
    CONNECTION_WINDOW_BYTES, MAX_BATCH_BYTES, MAX_FRAME_BYTES, PROTOCOL_VERSION,
    STREAM_WINDOW_BYTES,
};
use crate::message::{Origin, client_fields};
use crate::outbox::Outbox;
use crate::parts::Parts;
use crate::{Endpoint, SessionOptions, socket_path};
use nacre_protocol::decode::senseless;
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::proto::{self as pb, ServerMessage};

const SESSION_PATH: PathAndQuery = PathAndQuery::from_static("/nacre.v1.Nacre/Session");

/// The hint for a user whom a Unix socket refuses.
const OTHER_USER: &str =
    "run the command as the user who runs the cluster, or with --identity FILE";

/// A session's connection.
pub(crate) struct Link {
    pub(crate) outbox: Outbox,
    pub(crate) node: NodeInfo,
    /// How fast the client may send.
    pub(crate) pace: ClientPace,
    inbound: Streaming<Batch>,
    /// Messages of which parts are missing.
    parts: Parts,
    /// Messages that arrived together with the `Welcome`.
    early: Vec<ServerMessage>,
    /// Whether the node has said anything but its welcome.
    pub(crate) was_of_use: bool,
    _connection: Connection,
}

/// Drives the HTTP/2 connection until this value is dropped.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Otherwise the connection would stay open, because more messages could still be pushed.
        self.outbox.end(Ok(()));
    }
}

impl Link {
    /// Connects to a node and performs the handshake of a session.
    ///
    /// # Errors
    /// `Unavailable` if no node listens on `endpoint`, `Unsupported` if the node speaks another
    /// version of the protocol, `Denied` if the node refuses this client.
    pub(crate) async fn dial(endpoint: &Endpoint, options: &SessionOptions) -> Result<Self> {
        match endpoint.address() {
            Address::Unix(path) => {
                let stream = socket_path::connect(path).await.map_err(closed_socket)?;
                check_user(&stream)?;
                Self::open(stream, options).await
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(unreachable)?;
                // Batches are made above: the kernel must not wait for more.
                stream.set_nodelay(true).map_err(unreachable)?;
                Self::open(stream, options).await
            }
            Address::Tls(host, port) => {
                let identity = options.identity.as_ref().ok_or_else(|| {
                    Error::denied(format!("{endpoint} admits only clients with an identity"))
                        .hint("give an identity file, which `nacre entity add` makes")
                })?;
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(unreachable)?;
                stream.set_nodelay(true).map_err(unreachable)?;
                let (stream, node) = Connector::new(identity)?.connect(stream).await?;
                check_node(&node, options)?;
                Self::open(stream, options).await
            }
        }
    }

    async fn open<I>(io: I, options: &SessionOptions) -> Result<Self>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(MAX_FRAME_BYTES)
            .keep_alive_interval(options.keep_alive.interval)
            .keep_alive_timeout(options.keep_alive.timeout)
            .keep_alive_while_idle(true)
            .handshake::<_, Body>(TokioIo::new(io))
            .await
            .map_err(unreachable)?;
        let connection = Connection(tokio::spawn(async move {
            // How it ended shows in the session's stream.
            let _ = connection.await;
        }));

        let outbox = Outbox::default();
        let hello = Asked::Hello(pb::Hello {
            protocol_version: PROTOCOL_VERSION,
            client_name: options.client_name.to_string(),
            takes_parts: true,
        });
        let _ = outbox.push(&client_fields(0, 0, Origin::default()), &encode(&hello));
        let mut inbound = open_stream(sender, &outbox).await?;
        let first = inbound.message().await.map_err(|status| failure(&status))?;
        let mut early = messages(first.ok_or_else(|| senseless("no welcome"))?)?.into_iter();
        let (node, pace) = match early.next().and_then(|message| message.body) {
            Some(Answer::Welcome(welcome)) => {
                let pace = ClientPace::new(&welcome, Arc::clone(&options.clock));
                (node_info(&welcome)?, pace)
            }
            _ => return Err(senseless("something other than a welcome")),
        };
        let early = early.collect();
        let parts = Parts::default();
        let (was_of_use, _connection) = (false, connection);
        Ok(Self { outbox, node, pace, inbound, early, parts, was_of_use, _connection })
    }

    /// Passes on the node's messages until the connection ends. Returns why it ended.
    pub(crate) async fn hear(&mut self, shared: &Shared) -> Error {
        let mut early = std::mem::take(&mut self.early);
        if let Err(error) = self.take_parts(&mut early) {
            return error;
        }
        shared.hear(early);
        loop {
            match self.inbound.message().await {
                Ok(Some(batch)) => {
                    let heard = messages(batch).and_then(|mut messages| {
                        self.take_parts(&mut messages)?;
                        Ok(messages)
                    });
                    match heard {
                        Ok(messages) => {
                            self.was_of_use = true;
                            shared.hear(messages);
                        }
                        Err(error) => return error,
                    }
                }
                Ok(None) => return Error::unavailable("the node has ended the session"),
                Err(status) => return failure(&status),
            }
        }
    }
}

impl Link {
    /// Joins the parts of messages that are sent in parts, and notes changes of the speed of the
    /// node's link.
    fn take_parts(&mut self, messages: &mut Vec<ServerMessage>) -> Result<()> {
        let is_special = |message: &ServerMessage| {
            matches!(message.body, Some(Answer::Part(_) | Answer::LinkSpeed(_)))
        };
        if !messages.iter().any(is_special) {
            return Ok(());
        }
        let mut taken = Vec::with_capacity(messages.len());
        for message in messages.drain(..) {
            match message.body {
                Some(Answer::Part(part)) => {
                    let whole = self.parts.add(message.id, &part);
                    let Some(whole) = whole.map_err(|why| senseless(&why))? else { continue };
                    let whole = ServerMessage::decode(whole);
                    let whole = whole.map_err(|_| senseless("a message in malformed parts"))?;
                    match whole.body {
                        Some(Answer::Part(_)) => return Err(senseless("a part within a part")),
                        _ => taken.push(whole),
                    }
                }
                Some(Answer::LinkSpeed(speed)) => self.pace.set(speed.bytes_per_second),
                _ => taken.push(message),
            }
        }
        *messages = taken;
        Ok(())
    }
}

async fn open_stream(
    sender: http2::SendRequest<Body>,
    outbox: &Outbox,
) -> Result<Streaming<Batch>> {
    let service = service_fn(move |request| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    let batches = outbox.stream().filter_map(|batch| std::future::ready(batch.ok()));
    let response = Grpc::with_origin(service, Uri::from_static("http://node"))
        .max_decoding_message_size(MAX_BATCH_BYTES)
        .streaming(Request::new(batches), SESSION_PATH, BatchCodec::default())
        .await;
    Ok(response.map_err(|status| failure(&status))?.into_inner())
}

fn messages(batch: Batch) -> Result<Vec<ServerMessage>> {
    batch.decode().map_err(|status| failure(&status))
}

fn node_info(welcome: &pb::Welcome) -> Result<NodeInfo> {
    Ok(NodeInfo {
        name: NodeName::new(&welcome.node_name)
            .map_err(|error| senseless(&format!("a welcome from {}", error.message())))?,
        incarnation: welcome.incarnation,
        capabilities: Capabilities::from_bits(welcome.capabilities),
    })
}

/// Checks that the node is the one that the options name.
fn check_node(found: &EntityName, options: &SessionOptions) -> Result<()> {
    let meant = options.node.as_ref().map(EntityName::of_node).transpose()?;
    match meant {
        Some(meant) if meant != *found => {
            Err(Error::unavailable(format!("{found} listens at the address of {meant}")))
        }
        _ => Ok(()),
    }
}

/// Why a Unix socket was not reached.
fn closed_socket(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::denied("permission denied").hint(OTHER_USER),
        _ => unreachable(error),
    }
}

/// Checks that the node behind a Unix socket runs as the same user as this process, or that this
/// process runs as root. A node admits no other users on a Unix socket.
fn check_user(stream: &UnixStream) -> Result<()> {
    let (own, node) = (geteuid(), stream.peer_cred().map_err(unreachable)?.uid());
    if own.is_root() || own.as_raw() == node {
        return Ok(());
    }
    Err(Error::denied(format!("permission denied: user {node} runs the node")).hint(OTHER_USER))
}

fn unreachable(error: impl std::fmt::Display) -> Error {
    Error::unavailable(error.to_string())
}

/// Why a session ended.
fn failure(status: &Status) -> Error {
    match status.code() {
        Code::PermissionDenied => Error::denied(status.message()),
        Code::FailedPrecondition => Error::unsupported(status.message()),
        Code::ResourceExhausted => Error::unavailable(status.message()),
        code => Error::unavailable(format!("{code}: {}", status.message())),
    }
}
