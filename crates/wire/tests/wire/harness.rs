//! Nodes, services and objects to test with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use nacre_conformance::{MemoryStore, wait};
use nacre_object::{Error, NodeName, ObjectId, Op, Request, Result, WatchEvent, WatchStream};
use nacre_wire::{
    Caller, Endpoint, Listener, Server, ServerBuilder, Service, Session, SessionOptions,
};
use tempfile::TempDir;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

/// Longer than anything takes on a machine that is busy.
pub const LONG: Duration = Duration::from_secs(20);

/// A folder for sockets, and the endpoint of a node in it.
pub struct SocketFolder {
    dir: TempDir,
}

impl SocketFolder {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn endpoint(&self) -> Endpoint {
        self.named("node")
    }

    pub fn named(&self, name: &str) -> Endpoint {
        Endpoint::unix(self.dir.path().join(name)).unwrap()
    }
}

/// A server that runs.
pub struct Node {
    pub endpoint: Endpoint,
    pub server: Server,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<()>>,
}

impl Node {
    pub async fn start(
        endpoint: &Endpoint,
        incarnation: u64,
        with: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let builder = Server::builder(NodeName::new("node").unwrap(), incarnation);
        let server = with(builder).build();
        let listener = Listener::bind(endpoint).await.unwrap();
        let endpoint = listener.endpoints().remove(0);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn({
            let server = server.clone();
            async move {
                let stopped = async {
                    let _ = stopped.await;
                };
                server.serve(listener, stopped).await
            }
        });
        Self { endpoint, server, stop, serving }
    }

    /// A node with a store.
    pub async fn of_store(endpoint: &Endpoint, store: &MemoryStore) -> Self {
        let store = Arc::new(store.clone());
        Self::start(endpoint, 1, |builder| builder.store(store.clone()).watch(store)).await
    }

    /// A node with the service `test`.
    pub async fn of_service(endpoint: &Endpoint, service: &Arc<TestService>) -> Self {
        Self::start(endpoint, 1, |builder| builder.service("test", service.clone())).await
    }

    /// Tells the node to stop. The returned handle is ready when it has stopped.
    pub fn stop(self) -> JoinHandle<Result<()>> {
        let _ = self.stop.send(());
        self.serving
    }
}

/// A service that does what a test needs.
pub struct TestService {
    begun: watch::Sender<usize>,
    finished: watch::Sender<usize>,
    given_up: watch::Sender<usize>,
    gate: Semaphore,
    recorded: Mutex<Vec<Bytes>>,
}

impl TestService {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: watch::Sender::new(0),
            finished: watch::Sender::new(0),
            given_up: watch::Sender::new(0),
            gate: Semaphore::new(0),
            recorded: Mutex::default(),
        })
    }

    /// Calls that were begun.
    pub fn begun(&self) -> usize {
        *self.begun.borrow()
    }

    /// Calls that have ended.
    pub fn finished(&self) -> usize {
        *self.finished.borrow()
    }

    pub async fn until_begun(&self, count: usize) {
        reaches(&self.begun, count, "calls begun").await;
    }

    pub async fn until_finished(&self, count: usize) {
        reaches(&self.finished, count, "calls finished").await;
    }

    /// Waits until `count` calls of `wait` were given up. Nothing else ends these calls.
    pub async fn until_given_up(&self, count: usize) {
        reaches(&self.given_up, count, "calls given up").await;
    }

    /// Lets so many calls of `hold` end.
    pub fn release(&self, count: usize) {
        self.gate.add_permits(count);
    }

    /// What `record` was given, in order.
    pub fn recorded(&self) -> Vec<Bytes> {
        self.recorded.lock().unwrap().clone()
    }
}

/// Counts its end.
struct Dropped<'a>(&'a watch::Sender<usize>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Service for TestService {
    async fn ask(&self, caller: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        self.begun.send_modify(|begun| *begun += 1);
        if method == "wait" {
            let _dropped = Dropped(&self.given_up);
            std::future::pending::<()>().await;
        }
        if method.starts_with("hold") {
            self.gate.acquire().await.unwrap().forget();
        }
        self.finished.send_modify(|finished| *finished += 1);
        match method {
            "echo" | "hold" => Ok(input),
            "record" => {
                self.recorded.lock().unwrap().push(input.clone());
                Ok(input)
            }
            // As many bytes as the input says.
            "make" | "hold-make" => {
                let count = std::str::from_utf8(&input).unwrap().parse().unwrap();
                Ok(Bytes::from(vec![b'x'; count]))
            }
            "who" => {
                Ok(format!("{} {} {}", caller.entity(), caller.tenant(), caller.client_name).into())
            }
            _ => Err(Error::unsupported(format!("no method {method}")).during("test")),
        }
    }

    fn only_waits(&self, method: &str) -> bool {
        method == "wait"
    }
}

pub async fn connect(endpoint: &Endpoint) -> Session {
    Session::connect(endpoint.clone(), SessionOptions::default()).await.unwrap()
}

/// Asks the service `test`, for as long as it takes.
pub async fn ask(session: &Session, method: &str, input: impl Into<Bytes>) -> Result<Bytes> {
    session.ask("test", method, input.into(), LONG).await
}

/// As [`ask`], on a task of its own.
pub fn asking(
    session: &Session,
    method: &'static str,
    input: impl Into<Bytes>,
) -> JoinHandle<Result<Bytes>> {
    let (session, input) = (session.clone(), input.into());
    tokio::spawn(async move { ask(&session, method, input).await })
}

pub fn object(text: &str) -> ObjectId {
    text.parse().unwrap()
}

pub fn request(text: &str, op: Op) -> Request {
    Request::new(object(text), vec![op]).unwrap()
}

/// Waits until a condition is true, by checking it again and again.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    wait::eventually(what, async || holds()).await;
}

/// Waits until so many are counted.
async fn reaches(counted: &watch::Sender<usize>, count: usize, what: &str) {
    let mut counted = counted.subscribe();
    let reached = counted.wait_for(|counted| *counted >= count);
    wait::within_deadline(&format!("{count} {what}"), reached).await.unwrap();
}

/// What a watch tells next; `None` at its end.
pub async fn told(watch: &mut WatchStream) -> Option<WatchEvent> {
    wait::within_deadline("what a watch tells", watch.next()).await
}
