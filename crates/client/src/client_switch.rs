//! `ClientSwitch`: the switch of a client, which is a layer in front of one storage node. If a rule of
//! that node allows direct reads, reads of routed bytes go straight to the node that keeps them. See
//! [`ClientRoutes`], which decides.
//!
//! Reads never wait for what the client asks the home: until it knows a permit, they go through the
//! home. A direct read that fails for any reason is repeated through the home.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use nacre_clock::Clock;
use nacre_host::HostTransport;
use nacre_object::{Layer, NodeName, ObjectId, Op, OpResult, Reply, Request, Result, Stack, Store};
use nacre_route::{ClientRoutes, DirectRead, DirectSource, NextRead, Permit, Span, WhereAsk};

use crate::sessions::Sessions;

/// The service of nodes that answers about routes.
const ROUTE_SERVICE: &str = "route";
/// How long a node may take for a direct read, before the client reads through the home.
const READ_TIME: Duration = Duration::from_secs(2);
/// How long the home may take to answer what the client asks it.
const HOME_TIME: Duration = Duration::from_secs(5);

/// The switch of a client for the objects of one node.
#[derive(Debug)]
pub(crate) struct ClientSwitch {
    next: Stack,
    shared: Arc<Shared>,
}

struct Shared {
    home: NodeName,
    nodes: Sessions,
    clock: Arc<dyn Clock>,
    routes: Mutex<ClientRoutes>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("home", &self.home).finish_non_exhaustive()
    }
}

impl ClientSwitch {
    /// The layer before `next`, which reaches the node `home`.
    pub fn new(next: Stack, home: NodeName, nodes: Sessions, clock: Arc<dyn Clock>) -> Self {
        let routes = Mutex::default();
        Self { next, shared: Arc::new(Shared { home, nodes, clock, routes }) }
    }

    async fn through_home(&self, request: Request) -> Result<Reply> {
        let object = request.header.object.clone();
        self.shared.routes().note_request(&request);
        let reply = self.next.submit(request).await?;
        self.shared.routes().note_version(&object, reply.version);
        Ok(reply)
    }

    async fn read(&self, request: Request, span: Span) -> Result<Reply> {
        let now = self.shared.clock.monotonic();
        let next = self.shared.routes().read(now, &request, span);
        match next {
            NextRead::Home => {}
            NextRead::HomeAskRules => drop(tokio::spawn(Arc::clone(&self.shared).ask_rules())),
            NextRead::HomeAskWhere => {
                let object = request.header.object.clone();
                tokio::spawn(Arc::clone(&self.shared).ask_where(object, span.start()));
            }
            NextRead::Direct(source) => {
                if let Some(reply) = self.shared.read_at(&source, &request, span).await {
                    return Ok(reply);
                }
                self.shared.routes().refused(&request.header.object, source.permit.token);
            }
        }
        self.through_home(request).await
    }
}

impl Shared {
    fn routes(&self) -> MutexGuard<'_, ClientRoutes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply of the node that keeps the bytes; `None` if it serves no such read.
    async fn read_at(&self, source: &DirectSource, request: &Request, span: Span) -> Option<Reply> {
        let DirectSource { node, kept_in, permit } = source;
        let (object, kept_in) = (request.header.object.clone(), kept_in.clone());
        let read = DirectRead { token: permit.token, span, object, kept_in }.encode();
        let asked = self.nodes.ask(node, ROUTE_SERVICE, "direct-read", read, READ_TIME).await;
        let data = asked.ok().filter(|data| data.len() as u64 == span.length())?;
        Some(Reply { version: permit.version, results: vec![OpResult::Data(data)] })
    }

    async fn ask_home<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        input: Bytes,
    ) -> Option<T> {
        let answer = self.nodes.ask(&self.home, ROUTE_SERVICE, method, input, HOME_TIME).await;
        serde_json::from_slice(&answer.ok()?).ok()
    }

    async fn ask_rules(self: Arc<Self>) {
        // Without an answer the client goes on with the rules that it has.
        if let Some(rules) = self.ask_home("direct-rules", Bytes::new()).await {
            self.routes().note_rules(&rules);
        }
    }

    async fn ask_where(self: Arc<Self>, object: ObjectId, offset: u64) {
        let ask = WhereAsk { object: object.to_string(), offset };
        let permit: Option<Permit> = match serde_json::to_vec(&ask) {
            Ok(input) => self.ask_home("where", Bytes::from(input)).await,
            Err(_) => None,
        };
        self.routes().note_where(&object, permit);
    }
}

/// The bytes of a request that is one plain read of the present state of an object.
fn plain_read(request: &Request) -> Option<Span> {
    match request.ops.as_slice() {
        [Op::Read { offset, length }] if request.header.snapshot.is_none() => {
            Span::new(*offset, offset.checked_add(*length)?)
        }
        _ => None,
    }
}

impl Layer for ClientSwitch {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        match plain_read(&request) {
            Some(span) => self.read(request, span).boxed(),
            None => self.through_home(request).boxed(),
        }
    }
}
