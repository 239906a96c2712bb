//! Connections: accepted, spoken HTTP/2 on, and closed when the server stops.

use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, watch};
use tonic::service::Routes;

use super::listener::Socket;
use super::node::Phase;
use crate::KeepAlive;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTION_WINDOW_BYTES, HANDSHAKE_TIMEOUT, MAX_CONNECTIONS, MAX_FRAME_BYTES,
    MAX_STREAMS, STREAM_WINDOW_BYTES,
};

/// The connections of a server.
pub(crate) struct Connections {
    routes: Routes,
    http: http2::Builder<TokioExecutor>,
    /// Room for connections; each holds a permit until it is closed.
    room: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

/// A stream of bytes to a client.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Waits until the client has said something.
    fn spoken(&self) -> impl Future<Output = std::io::Result<()>> + Send;
}

impl Transport for TcpStream {
    async fn spoken(&self) -> std::io::Result<()> {
        self.readable().await
    }
}

impl Transport for UnixStream {
    async fn spoken(&self) -> std::io::Result<()> {
        self.readable().await
    }
}

impl Connections {
    pub(crate) fn new(
        routes: Routes,
        keep_alive: KeepAlive,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(MAX_FRAME_BYTES)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(keep_alive.interval)
            .keep_alive_timeout(keep_alive.timeout);
        Self { routes, http, room: Arc::new(Semaphore::new(MAX_CONNECTIONS)), phase }
    }

    pub(crate) fn count(&self) -> usize {
        MAX_CONNECTIONS - self.room.available_permits()
    }

    /// Waits until there are no connections.
    pub(crate) async fn all_closed(&self) {
        let all = self.room.acquire_many(MAX_CONNECTIONS as u32).await;
        drop(all.expect("it is never closed"));
    }

    /// Accepts connections, for ever. While there is no room for more, they wait in the kernel.
    pub(crate) async fn accept(self: Arc<Self>, socket: Socket) {
        loop {
            match &socket {
                Socket::Unix(listener, _) => match listener.accept().await {
                    Ok((stream, _)) => self.clone().start(stream).await,
                    Err(_) => pause().await,
                },
                Socket::Tcp(listener) => match listener.accept().await {
                    Ok((stream, _)) => {
                        // Batches are made above: the kernel must not wait for more. If it does,
                        // everything works as well, if slower.
                        let _ = stream.set_nodelay(true);
                        self.clone().start(stream).await;
                    }
                    Err(_) => pause().await,
                },
            }
        }
    }

    /// Serves a connection on a task of its own, once there is room for it.
    async fn start(self: Arc<Self>, stream: impl Transport) {
        let place = self.room.clone().acquire_owned().await.expect("it is never closed");
        let mut phase = self.phase.clone();
        tokio::spawn(async move {
            let spoken = tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.spoken());
            let spoken = tokio::select! {
                spoken = spoken => matches!(spoken, Ok(Ok(()))),
                () = reached(&mut phase, Phase::Draining) => false,
            };
            if spoken {
                self.serve(stream, phase).await;
            }
            drop(place);
        });
    }

    /// Serves a connection until either end closes it. What goes wrong with it concerns the client
    /// only, who sees it closed.
    async fn serve(&self, stream: impl Transport, mut phase: watch::Receiver<Phase>) {
        let service = TowerToHyperService::new(self.routes.clone());
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = reached(&mut phase, Phase::Draining) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            () = reached(&mut phase, Phase::Cut) => {}
        }
    }
}

/// Rests: the machine is out of descriptors, or the client is gone already; neither is for ever.
async fn pause() {
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Waits for a phase. That the server is gone altogether is the last one.
pub(crate) async fn reached(phase: &mut watch::Receiver<Phase>, awaited: Phase) {
    let _ = phase.wait_for(|phase| *phase >= awaited).await;
}
