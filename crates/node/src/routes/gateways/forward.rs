//! How a gateway sends IO that rules concern to the router, and how the router answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt;
use nacre_object::{Error, ErrorKind, NodeName, Op, Reply, Request, Result};
use nacre_protocol::{decode, encode, proto as pb};
use nacre_route::limits::MAX_CONTROLLER_WAIT;
use nacre_wire::limits::REQUEST_DEADLINE;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::super::pieces::PATIENCE;
use super::super::service::{Question, ROUTE_SERVICE};
use super::super::{NodeSwitch, Onward};

/// The time for one request to the router. It is longer than the router waits for bytes elsewhere.
const FORWARD_TIME: Duration = Duration::from_secs(25);
/// Between two attempts to reach the router.
const PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(FORWARD_TIME.as_secs() > PATIENCE.as_secs());
const _: () = assert!(FORWARD_TIME.as_secs() > MAX_CONTROLLER_WAIT.as_secs());
const _: () = assert!(REQUEST_DEADLINE.as_secs() > FORWARD_TIME.as_secs());

/// Which gateway routes IO, as this gateway knows it.
#[derive(Debug)]
pub(in super::super) struct Router {
    known: watch::Sender<RouterState>,
    /// All gateways.
    gateways: Mutex<Vec<NodeName>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RouterState {
    This,
    /// Another one; `None` while there is none.
    Other(Option<NodeName>),
}

impl Router {
    /// If nodes keep the objects, the switch of each node routes the IO on its objects. Of
    /// gateways, only one routes, and it is not known yet which.
    pub fn new(is_gateway: bool) -> Self {
        let known = if is_gateway { RouterState::Other(None) } else { RouterState::This };
        Self { known: watch::Sender::new(known), gateways: Mutex::default() }
    }

    /// All gateways, as this one knows them.
    pub fn gateways(&self) -> Vec<NodeName> {
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn note_gateways(&self, nodes: Vec<NodeName>) {
        *self.gateways.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Whether this node routes.
    pub fn is_this(&self) -> bool {
        *self.known.borrow() == RouterState::This
    }

    /// Returns once this node routes.
    pub async fn until_this(&self) {
        let mut known = self.known.subscribe();
        // The sender is a field of this value, so it exists.
        let _ = known.wait_for(|known| *known == RouterState::This).await;
    }

    pub fn note_this(&self) {
        self.known.send_replace(RouterState::This);
    }

    /// A router that was replaced was also shut out, so a router stays one until its process ends.
    pub fn note_other(&self, node: Option<NodeName>) {
        self.known.send_if_modified(|known| {
            let new = RouterState::Other(node);
            let is_new = *known != RouterState::This && *known != new;
            if is_new {
                *known = new;
            }
            is_new
        });
    }

    /// The router; `None` if it is this node.
    async fn known(&self) -> Option<NodeName> {
        let mut known = self.known.subscribe();
        // The sender is a field of this value, so it exists.
        let known = known.wait_for(|known| *known != RouterState::Other(None)).await;
        match known.as_deref() {
            Ok(RouterState::Other(node)) => node.clone(),
            _ => None,
        }
    }
}

fn no_router(request: &Request) -> Error {
    Error::unavailable("no gateway routes the IO on this object at present")
        .on(&request.header.object)
        .hint("try again in some seconds; `nacre route status` shows the gateways")
}

impl NodeSwitch {
    /// Runs a request on an object that has rules, or whose bytes may lie elsewhere: here, or at the
    /// gateway that routes.
    pub(in super::super) async fn submit(
        self: &Arc<Self>,
        onward: Onward,
        mut request: Request,
    ) -> Result<Reply> {
        if !self.router().is_this() {
            match self.forwarded(request).boxed().await {
                Ok(reply) => return reply,
                Err(returned) => request = returned,
            }
        }
        self.submit_here(onward, request).await
    }

    /// Sends a request to the router. Returns the request if this node is the router.
    ///
    /// # Errors
    /// Those of the router; `Unavailable` if there is none.
    async fn forwarded(
        self: &Arc<Self>,
        request: Request,
    ) -> std::result::Result<Result<Reply>, Request> {
        let until = Instant::now() + PATIENCE;
        loop {
            let Ok(router) = timeout(until - Instant::now(), self.router().known()).await else {
                return Ok(Err(no_router(&request)));
            };
            let Some(router) = router else { return Err(request) };
            let answer = self.forward(&router, &request).await;
            let Err(error) = &answer else { return Ok(answer) };
            let may_repeat = error.kind() == ErrorKind::Stale
                || (error.kind() == ErrorKind::Unavailable
                    && !request.ops.iter().any(Op::is_write));
            if !may_repeat || Instant::now() >= until {
                return Ok(answer);
            }
            sleep(PAUSE).await;
        }
    }

    async fn forward(&self, router: &NodeName, request: &Request) -> Result<Reply> {
        let mut input = Vec::new();
        encode::request(request.clone())
            .encode(&mut input)
            .map_err(|cause| Error::invalid(cause.to_string()))?;
        let question = Question::forwarded(self, &request.header, Bytes::from(input)).encode()?;
        let transport = self.transport()?;
        let answer =
            transport.ask(router, ROUTE_SERVICE, "forward", question, FORWARD_TIME).await?;
        decode::reply(pb::ObjectReply::decode(answer).map_err(senseless)?)
    }
}

fn senseless(cause: prost::DecodeError) -> Error {
    Error::corrupt(format!("a forwarded request or its reply is malformed: {cause}"))
        .hint("run one release of nacre on all nodes")
}

/// Answers a request that another gateway has forwarded.
///
/// # Errors
/// `Stale` if this gateway is not the router; the errors of the request.
pub(in super::super) async fn answer(switch: &Arc<NodeSwitch>, input: Bytes) -> Result<Bytes> {
    let question = Question::decode(input)?;
    let message = pb::ObjectRequest::decode(question.payload.clone()).map_err(senseless)?;
    let mut request = decode::request(message)?;
    question.identify(&mut request)?;
    if !switch.router().is_this() {
        return Err(Error::stale("this gateway routes no IO").on(&request.header.object));
    }
    let reply = switch.submit_here(switch.own().clone(), request).await?;
    let mut output = Vec::new();
    encode::reply(reply).encode(&mut output).map_err(|cause| Error::invalid(cause.to_string()))?;
    Ok(Bytes::from(output))
}
