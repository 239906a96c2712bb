//! Serves `GET /metrics` over HTTP/1.1 on a loopback address, as OpenMetrics text.
//!
//! Limits protect the node from scrapers: few connections at a time, short headers, one answer for
//! each connection, and one timeout for the whole exchange.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nacre_object::{Error, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time;

use super::Metrics;

/// Connections at a time; more wait in the kernel. Prometheus needs one.
const MAX_CONNECTIONS: usize = 8;
/// The largest request line with its headers. It is the smallest limit that hyper accepts.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// From the connection to the end of the answer; a scrape takes milliseconds.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long accepting rests when the machine is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Where metrics are, by convention.
const PATH: &str = "/metrics";
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// A listening port, before there are metrics to report.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Listens on this port of the loopback address; 0 means any free port.
    ///
    /// # Errors
    /// `Exists` if the port is taken, `Unavailable` if no port is free.
    pub async fn bind(port: u16) -> Result<Self> {
        let refused = |error: std::io::Error| {
            let text = format!("cannot serve metrics on 127.0.0.1:{port}: {error}");
            match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    Error::exists(text).hint("choose other ports with `nacre up --metrics-port`")
                }
                _ => Error::unavailable(text),
            }
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves these metrics to every client on this machine.
    pub fn serve(self, metrics: Metrics) -> MetricsEndpoint {
        MetricsEndpoint(tokio::spawn(accept(self.listener, Arc::new(metrics))))
    }
}

/// Answers scrapers until it is dropped.
#[derive(Debug)]
pub struct MetricsEndpoint(JoinHandle<()>);

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: TcpListener, metrics: Arc<Metrics>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = room.clone().acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, metrics.clone(), place));
            }
            Err(_) => time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, metrics: Arc<Metrics>, place: OwnedSemaphorePermit) {
    let answer = service_fn(|request: Request<Incoming>| {
        let response = answer(&request, &metrics);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    // Ignore errors of the connection: they concern only the scraper.
    let _ = time::timeout(CONNECTION_TIMEOUT, connection).await;
    drop(place);
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<String> {
    let plain = |status: StatusCode, text: &str| {
        let mut response = Response::new(text.to_owned());
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != PATH {
        return plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET it\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match metrics.text() {
        Ok(text) => {
            let mut response = Response::new(text);
            response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
            response
        }
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "a metric cannot be told\n"),
    }
}
