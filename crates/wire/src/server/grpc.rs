//! The gRPC service `nacre.v1.Nacre`: a session's handshake, and the unary call.
//!
//! It is written by hand rather than generated, because sessions send batches that are already
//! encoded.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nacre_object::limits::MAX_IDENTIFIER_BYTES;
use nacre_object::{EntityName, Error, ErrorKind, Standing};
use nacre_telemetry::Id;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::service_fn;

use super::Caller;
use super::call_limits::CallPermit;
use super::connection::Connected;
use super::meter::{Begun, Ending, Kind};
use super::node::Node;
use super::received::{CallCodec, Received};
use super::refusals::RefusalReason;
use super::session::Session;
use super::session_link::{Direction, SessionLink, pass, pool_of};
use super::under_way::Work;
use crate::codec::{Batch, BatchCodec};
use crate::limits::{MAX_BATCH_BYTES, MAX_CALLS_BYTES, MAX_ENTITY_CALLS, PROTOCOL_VERSION};
use crate::outbox::{Body as _, Lane, Outbox, OutboxStream};
use crate::{SERVICE_NAME, message};
use nacre_protocol::encode;
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::proto::{ClientMessage, Hello, ServerMessage};

/// The service of a node.
#[derive(Clone)]
pub(crate) struct GrpcService(pub(crate) Arc<Node>);

impl NamedService for GrpcService {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<http::Request<Body>> for GrpcService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let node = self.0.clone();
        let Some(connected) = request.extensions().get::<Connected>().cloned() else {
            let status = Status::internal("a request without a connection");
            return std::future::ready(Ok(status.into_http())).boxed();
        };
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        match method {
            "Session" => session(node, connected, request).map(Ok).boxed(),
            "Call" => call(node, connected, request).map(Ok).boxed(),
            _ => {
                let status = Status::unimplemented(format!("{SERVICE_NAME} has no {method:?}"));
                std::future::ready(Ok(status.into_http())).boxed()
            }
        }
    }
}

async fn session(
    node: Arc<Node>,
    connected: Connected,
    request: http::Request<Body>,
) -> http::Response<Body> {
    let codec = BatchCodec::counting(&node.meter.session_bytes);
    let open = move |request| open(node.clone(), connected.clone(), request);
    Grpc::new(codec)
        .max_decoding_message_size(MAX_BATCH_BYTES)
        .streaming(service_fn(open), request)
        .await
}

async fn call(
    node: Arc<Node>,
    connected: Connected,
    request: http::Request<Body>,
) -> http::Response<Body> {
    // The server decides whether to admit the peer before it reads anything. So only admitted peers
    // use memory for messages.
    let standing = match node.guard.admit(&connected.peer).await.map_err(Refused::from) {
        Ok(standing) => standing,
        Err(refused) => return refused.noted(&node, &connected).into_http(),
    };
    let answer = move |request: Request<Received>| {
        let (node, standing) = (node.clone(), standing.clone());
        let busy = connected.activity.begin();
        async move {
            let _busy = busy;
            Ok(Response::new(answer_one(node, standing, request.into_inner()).await))
        }
    };
    Grpc::new(CallCodec::default())
        .max_decoding_message_size(MAX_BATCH_BYTES)
        .unary(service_fn(answer), request)
        .await
}

async fn answer_one(
    node: Arc<Node>,
    standing: Arc<dyn Standing>,
    received: Received,
) -> ServerMessage {
    let (message, bytes) = match received {
        Received::Message(message, bytes) => (message, bytes),
        Received::Refused(id, error) => {
            return ServerMessage { id, body: Some(encode::failure(&error)) };
        }
    };
    let ClientMessage { id, timeout_micros, trace_id, span_id, body } = message;
    let answer = match body {
        // Its events would have nowhere to go.
        Some(Asked::Watch(_)) => encode::failure(
            &Error::invalid("a watch needs a session")
                .hint("send it in a session, not as a single call"),
        ),
        Some(asked) => {
            let caller = Arc::new(Caller { standing, session: 0, client_name: String::new() });
            let begun = Begun { kind: Kind::of(&asked), at: node.meter.now(), lane: Lane::MAIN };
            let trace = (trace_id != 0).then(|| node.spans.join(Id(trace_id), Id(span_id)));
            let give_up = give_up(timeout_micros);
            let link = node.link.as_deref();
            let tenant = link.filter(|link| link.is_on()).map_or_else(
                || caller.tenant(),
                |link| link.tenant_of(caller.tenant(), pool_of(&asked)),
            );
            pass(link, Direction::Received, &tenant, bytes).await;
            let answer = match until(give_up, node.calls.take(caller.entity(), bytes)).await {
                Some(Some(permit)) => {
                    finish(node.begin(&caller, trace, asked), permit, give_up).await
                }
                Some(None) | None => encode::failure(&too_many_calls()),
            };
            node.meter.ended(begun, Ending::of(&answer), node.meter.now());
            pass(link, Direction::Sent, &tenant, answer.length()).await;
            answer
        }
        None => encode::failure(&message::unknown()),
    };
    ServerMessage { id, body: Some(answer) }
}

/// Waits for work as long as its client waits. The work runs on its own task. If the client goes
/// away, work that only reads is aborted, and any other work runs to its end. The work keeps its
/// permit until it ends.
async fn finish(work: Work, permit: CallPermit, give_up: Option<Instant>) -> Answer {
    let Work { future, only_reads } = work;
    let work = tokio::spawn(async move {
        let outcome = future.await;
        drop(permit);
        outcome
    });
    let _abandoned = only_reads.then(|| AbortOnDrop(work.abort_handle()));
    match until(give_up, work).await {
        Some(Ok(outcome)) => outcome.answer,
        Some(Err(_)) => encode::failure(
            &Error::unavailable("the call panicked while it ran")
                .hint("the request may have been carried out: check that before you send it again"),
        ),
        None => encode::failure(&message::late()),
    }
}

/// Returns the time until which a client with this timeout waits, or `None` if it waits for ever.
fn give_up(timeout_micros: u64) -> Option<Instant> {
    match timeout_micros {
        0 => None,
        micros => Instant::now().checked_add(Duration::from_micros(micros)),
    }
}

/// The output of `coming`; `None` if the time is over first.
async fn until<F: Future>(give_up: Option<Instant>, coming: F) -> Option<F::Output> {
    match give_up {
        Some(give_up) => timeout_at(give_up, coming).await.ok(),
        None => Some(coming.await),
    }
}

fn too_many_calls() -> Error {
    let text = format!(
        "this entity already has {MAX_ENTITY_CALLS} calls or {MAX_CALLS_BYTES} bytes of calls in flight"
    );
    Error::exhausted(text).hint("this call was not begun: wait until others end, or use a session")
}

/// Aborts a task when its client is gone.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Performs the handshake and starts the session. If the peer is refused, counts it.
async fn open(
    node: Arc<Node>,
    connected: Connected,
    request: Request<Streaming<Batch>>,
) -> Result<Response<OutboxStream>, Status> {
    let opened = shake_hands(&node, &connected, request.into_inner()).await;
    opened.map(Response::new).map_err(|refused| refused.noted(&node, &connected))
}

/// Performs the handshake of a session. The server reads nothing from a peer before it has admitted
/// the peer. Before the hello, it keeps nothing for the client except its stream.
async fn shake_hands(
    node: &Arc<Node>,
    connected: &Connected,
    mut inbound: Streaming<Batch>,
) -> Result<OutboxStream, Refused> {
    let standing =
        tokio::time::timeout(node.handshake_timeout, node.guard.admit(&connected.peer)).await;
    let standing = standing.map_err(|_| {
        Error::unavailable("the node has not read the cluster's entities yet").hint("try again")
    })??;
    let first = tokio::time::timeout(node.handshake_timeout, inbound.next()).await;
    let mut batch = match first {
        Ok(Some(Err(status))) if status.code() == Code::Cancelled => return Err(Refused::left()),
        Ok(Some(batch)) => batch.map_err(Refused::protocol)?,
        Ok(None) => return Err(Refused::left()),
        Err(_) => {
            let status = Status::deadline_exceeded("no hello came");
            return Err(Refused { reason: Some(RefusalReason::Silence), status });
        }
    };
    let (id, takes_parts, client_name) = match first_of(&mut batch).map_err(Refused::protocol)? {
        Some(ClientMessage { id, body: Some(Asked::Hello(hello)), .. }) => {
            (id, hello.takes_parts, check(hello).map_err(Refused::protocol)?)
        }
        _ => return Err(no_hello()),
    };
    let slot = node.sessions.take(standing.entity()).map_err(|full| Refused {
        reason: Some(RefusalReason::Sessions),
        status: Status::resource_exhausted(full),
    })?;
    let caller = Caller { standing, session: node.next_session(), client_name };
    let outbox = Outbox::default();
    let stream = outbox.stream();
    let welcome = node.welcome();
    let link = SessionLink::new(node.link.clone(), takes_parts, welcome.link_bytes_per_second);
    let _ = outbox.push(&message::server_fields(id), &Answer::Welcome(welcome));
    let busy = connected.activity.begin();
    tokio::spawn(Session::new(node.clone(), caller, (inbound, batch), outbox, link, slot, busy));
    Ok(stream)
}

/// Why a peer is refused. Without a reason, the refusal is not counted: the client left, or may be
/// admitted later.
struct Refused {
    reason: Option<RefusalReason>,
    status: Status,
}

impl Refused {
    fn protocol(status: Status) -> Self {
        Self { reason: Some(RefusalReason::Protocol), status }
    }

    /// The client left before it said anything.
    fn left() -> Self {
        Self { reason: None, status: no_hello().status }
    }

    /// Counts the refusal and returns the status for the client.
    fn noted(self, node: &Node, connected: &Connected) -> Status {
        if let Some(reason) = self.reason {
            node.refusals.note(reason, &connected.from, self.status.message());
        }
        self.status
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        if error.kind() != ErrorKind::Denied {
            return Self { reason: None, status: Status::unavailable(error.message()) };
        }
        let status = Status::permission_denied(match error.hint_text() {
            Some(hint) => format!("{}; {hint}", error.message()),
            None => error.message().to_owned(),
        });
        Self { reason: Some(RefusalReason::Entity), status }
    }
}

fn first_of(batch: &mut Batch) -> Result<Option<ClientMessage>, Status> {
    let first = batch.next().transpose()?.map(Received::decode).transpose()?;
    Ok(first.and_then(|received| match received {
        Received::Message(message, _) => Some(message),
        Received::Refused(..) => None,
    }))
}

fn no_hello() -> Refused {
    Refused::protocol(Status::invalid_argument("a session begins with a hello"))
}

/// The client's name, if we understand each other.
fn check(hello: Hello) -> Result<String, Status> {
    if hello.protocol_version != PROTOCOL_VERSION {
        return Err(Status::failed_precondition(format!(
            "this node speaks version {PROTOCOL_VERSION} of the protocol, not {}",
            hello.protocol_version
        )));
    }
    if !hello.client_name.is_empty() && EntityName::new(&hello.client_name).is_err() {
        return Err(Status::invalid_argument(format!(
            "a client's name is at most {MAX_IDENTIFIER_BYTES} letters, digits, '.', '_' and '-'"
        )));
    }
    Ok(hello.client_name)
}
