//! Accepts connections, speaks HTTP/2 on them, and closes them when the server stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nacre_object::{Error, ErrorKind, Peer, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use tonic::codegen::{Service as _, http};
use tonic::service::Routes;
use tower::service_fn;

use super::idle::{Activity, IdleConnections};
use super::listener::Socket;
use super::node::{Node, Phase};
use super::refusals::{RefusalReason, Refusals};
use super::socket_authority::SocketAuthority;
use crate::KeepAlive;
use crate::identity::Acceptor;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTION_WINDOW_BYTES, FAREWELL_TIMEOUT, MAX_CONNECTIONS, MAX_FRAME_BYTES,
    MAX_STREAMS, STREAM_WINDOW_BYTES,
};

/// Why the server closed a connection to make room for a newer one.
const CROWDED_OUT: &str = "too many connections say nothing, and this did so for longest";
/// The user who may do everything on the machine.
const ROOT: u32 = 0;

/// The connections of a server.
pub(crate) struct Connections {
    routes: Routes,
    http: http2::Builder<TokioExecutor>,
    /// Slots for connections; each connection holds a permit until it is closed.
    slots: Arc<Semaphore>,
    idle: IdleConnections,
    refusals: Arc<Refusals>,
    /// How long a connection may be idle.
    timeout: Duration,
    phase: watch::Receiver<Phase>,
}

/// What services know about a connection. It is put into the extensions of the connection's
/// requests.
#[derive(Debug, Clone)]
pub(crate) struct Connected {
    /// The authenticated peer.
    pub(crate) peer: Peer,
    /// Where that is, for people: an address, or `unix`.
    pub(crate) from: Arc<str>,
    /// Whether the connection is idle.
    pub(crate) activity: Activity,
}

/// Why a connection is closed by the server.
enum Closing {
    Draining,
    Idle,
    Evicted,
}

impl Connections {
    pub(crate) fn new(routes: Routes, keep_alive: KeepAlive, node: &Node) -> Self {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(MAX_FRAME_BYTES)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(keep_alive.interval)
            .keep_alive_timeout(keep_alive.timeout);
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (timeout, phase) = (node.handshake_timeout, node.phase.subscribe());
        let refusals = node.refusals.clone();
        Self { routes, http, slots, idle: IdleConnections::default(), refusals, timeout, phase }
    }

    pub(crate) fn count(&self) -> usize {
        MAX_CONNECTIONS - self.slots.available_permits()
    }

    /// Waits until there are no connections.
    pub(crate) async fn all_closed(&self) {
        let all = self.slots.acquire_many(MAX_CONNECTIONS as u32).await;
        drop(all.expect("it is never closed"));
    }

    /// Accepts connections for ever. While the server has its maximum number of connections, new
    /// ones wait in the kernel.
    pub(crate) async fn accept(self: Arc<Self>, socket: Socket) {
        loop {
            let accepted = match &socket {
                Socket::Unix(listener, _) => {
                    let accepted = listener.accept().await;
                    accepted.map(|(stream, _)| (Stream::Unix(stream), Arc::from("unix")))
                }
                Socket::Tcp(listener) => {
                    let accepted = listener.accept().await;
                    accepted.map(|(stream, from)| (Stream::Tcp(stream), shown(from)))
                }
                Socket::Tls(listener, acceptor) => {
                    let accepted = listener.accept().await;
                    accepted
                        .map(|(stream, from)| (Stream::Tls(stream, acceptor.clone()), shown(from)))
                }
            };
            match accepted {
                Ok((stream, from)) => self.clone().start(stream, from).await,
                Err(_) => pause().await,
            }
        }
    }

    /// Serves a connection on a task of its own, once the server may have one more.
    async fn start(self: Arc<Self>, stream: Stream, from: Arc<str>) {
        let slot = self.slots.clone().acquire_owned().await.expect("it is never closed");
        let phase = self.phase.clone();
        tokio::spawn(async move {
            self.greet(stream, from, phase).await;
            drop(slot);
        });
    }

    /// Authenticates the peer and serves its connection.
    async fn greet(&self, stream: Stream, from: Arc<str>, phase: watch::Receiver<Phase>) {
        match stream {
            Stream::Unix(stream) => match local_peer(&stream) {
                Ok(peer) => self.serve(SocketAuthority::new(stream), peer, from, phase).await,
                // The server closes the connection of another user without an answer.
                Err(error) => self.refusals.note(RefusalReason::User, &from, error.message()),
            },
            Stream::Tcp(stream) => {
                send_at_once(&stream);
                self.serve(stream, Peer::Local, from, phase).await;
            }
            Stream::Tls(stream, acceptor) => {
                send_at_once(&stream);
                if let Some((stream, peer)) = self.shake_hands(stream, acceptor, &from).await {
                    self.serve(stream, peer, from, phase).await;
                }
            }
        }
    }

    /// Performs the handshake of a connection. On success, returns the connection and its peer.
    async fn shake_hands(
        &self,
        stream: TcpStream,
        acceptor: Acceptor,
        from: &Arc<str>,
    ) -> Option<(TlsStream<TcpStream>, Peer)> {
        let (mut slot, mut phase) = (self.idle.enter(), self.phase.clone());
        let handshake = tokio::select! {
            handshake = timeout(self.timeout, acceptor.accept(stream)) => handshake,
            () = slot.lost() => {
                self.refusals.note(RefusalReason::Crowd, from, CROWDED_OUT);
                return None;
            }
            () = reached(&mut phase, Phase::Draining) => return None,
        };
        match handshake {
            Ok(Ok(connection)) => return Some(connection),
            Ok(Err(error)) if error.kind() != ErrorKind::Unavailable => {
                self.refusals.note(RefusalReason::Tls, from, error.message());
            }
            // It left by itself.
            Ok(Err(_)) => {}
            Err(_) => self.refusals.note(
                RefusalReason::Silence,
                from,
                "the handshake did not end in time",
            ),
        }
        None
    }

    /// Serves a connection until client or server closes it. An error affects only this
    /// connection's client, which sees the connection closed.
    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        from: Arc<str>,
        mut phase: watch::Receiver<Phase>,
    ) {
        let activity = Activity::default();
        let connected = Connected { peer, from: from.clone(), activity: activity.clone() };
        let routes = self.routes.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            connected.activity.ask();
            request.extensions_mut().insert(connected.clone());
            routes.clone().call(request)
        });
        let service = TowerToHyperService::new(service);
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let closing = tokio::select! {
            ended = connection.as_mut() => {
                let broken = ended.err().filter(|error| !activity.was_asked() && breaks_rules(error));
                if let Some(error) = broken {
                    self.refusals.note(RefusalReason::Protocol, &from, error);
                }
                return;
            }
            () = reached(&mut phase, Phase::Draining) => Closing::Draining,
            closing = self.watch_idleness(&activity) => closing,
        };
        if !activity.was_asked() {
            self.note_silence(&closing, &from);
        }
        if matches!(closing, Closing::Evicted) {
            return;
        }
        connection.as_mut().graceful_shutdown();
        // Streams that never end, such as a watch of the node's health, do not count as activity.
        let said_goodbye = async {
            if matches!(closing, Closing::Draining) {
                activity.until(false).await;
            }
            sleep(FAREWELL_TIMEOUT).await;
        };
        tokio::select! {
            _ = connection => {}
            () = said_goodbye => {}
            () = reached(&mut phase, Phase::Cut) => {}
        }
    }

    /// Counts a connection that closes without a single request.
    fn note_silence(&self, closing: &Closing, from: &Arc<str>) {
        match closing {
            Closing::Evicted => self.refusals.note(RefusalReason::Crowd, from, CROWDED_OUT),
            Closing::Idle => {
                self.refusals.note(RefusalReason::Silence, from, "no request came in time");
            }
            Closing::Draining => {}
        }
    }

    /// Waits until a connection has been idle for too long, or until it must be closed because
    /// there are too many idle connections.
    async fn watch_idleness(&self, activity: &Activity) -> Closing {
        loop {
            activity.until(false).await;
            let mut slot = self.idle.enter();
            tokio::select! {
                () = activity.until(true) => {}
                () = slot.lost() => return Closing::Evicted,
                () = sleep(self.timeout) => return Closing::Idle,
            }
        }
    }
}

/// A connection that was accepted.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(TcpStream, Acceptor),
}

/// Whether a connection failed because of what the client sent, and not because the client left.
fn breaks_rules(error: &hyper::Error) -> bool {
    !std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>())
}

/// Returns the address that a connection came from, without the port, which differs each time.
fn shown(from: SocketAddr) -> Arc<str> {
    from.ip().to_string().into()
}

/// Turns off Nagle's algorithm. The session has already collected messages into batches, so the
/// kernel must not wait for more bytes. If this fails, everything still works, but more slowly.
fn send_at_once(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}

/// Asks the kernel for the user at the other end of a Unix socket.
fn local_peer(stream: &UnixStream) -> Result<Peer> {
    let user = stream.peer_cred().map_err(|error| Error::denied(error.to_string()))?.uid();
    match user {
        ROOT => Ok(Peer::Local),
        user if user == rustix::process::geteuid().as_raw() => Ok(Peer::Local),
        user => Err(Error::denied(format!("user {user} does not run this node"))
            .hint("connect as the user who runs it, or over TLS with an identity file")),
    }
}

/// Waits briefly after an `accept` failed: the machine is out of descriptors, or the client has
/// already gone. Both pass soon.
async fn pause() {
    sleep(ACCEPT_PAUSE).await;
}

/// Waits for a phase of the server. The end of the server counts as the last phase.
pub(crate) async fn reached(phase: &mut watch::Receiver<Phase>, awaited: Phase) {
    let _ = phase.wait_for(|phase| *phase >= awaited).await;
}
