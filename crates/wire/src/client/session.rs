//! A client's session with a node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{
    Capabilities, ListPage, ListRequest, NodeName, ObjectId, Op, Reply, Request, Result,
    WatchStream,
};

use super::call::{Call, Repeat};
use super::driver;
use super::options::SessionOptions;
use super::shared::{LinkState, Shared};
use super::watching::{EventStream, Watching};
use crate::Endpoint;
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::{decode, encode, proto as pb};

/// The node of a session, as its `Welcome` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node.
    pub name: NodeName,
    /// Another number each time it starts.
    pub incarnation: u64,
    /// The capabilities of the node's store.
    pub capabilities: Capabilities,
}

/// A session with a node. Clones are handles to the same session, which closes when the last handle
/// is dropped.
///
/// A session connects by itself, and reconnects whenever the connection is lost. Callers may make
/// any number of calls at once. While `CLIENT_BUDGET_BYTES` of requests are in flight, further
/// calls wait to be sent. Every call ends by its deadline.
///
/// When the connection breaks, the session resends calls that only read and calls that the node
/// cannot have begun. Any other call fails with `Unavailable`; the node may have executed it.
#[derive(Debug, Clone)]
pub struct Session(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

/// A transaction, ready to be sent.
pub(crate) struct Transaction {
    object: ObjectId,
    /// Or why it cannot be.
    call: Result<Call>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Session {
    /// A session that connects in the background. Must be called inside a Tokio runtime.
    pub fn open(endpoint: Endpoint, options: SessionOptions) -> Self {
        let shared = Arc::new(Shared::new(endpoint, options));
        driver::start(&shared);
        Self(Arc::new(Handle(shared)))
    }

    /// Opens a session and waits until it is connected. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// `Unavailable` if there is no connection within the session's patience, `Unsupported` if the
    /// node speaks another version of the protocol.
    pub async fn connect(endpoint: Endpoint, options: SessionOptions) -> Result<Self> {
        let session = Self::open(endpoint, options);
        session.shared().await_link(Duration::MAX).await?;
        Ok(session)
    }

    /// Opens another session with the same node.
    pub(crate) fn another(&self) -> Self {
        Self::open(self.endpoint().clone(), self.shared().options.clone())
    }

    /// The budget that requests in flight use, at least
    /// [`REQUEST_COST_BYTES`](crate::limits::REQUEST_COST_BYTES) each.
    pub(crate) fn under_way_bytes(&self) -> usize {
        self.shared().under_way_bytes()
    }

    /// Where the node is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared().endpoint
    }

    /// The node of the latest connection; `None` before the first connection.
    pub fn node(&self) -> Option<NodeInfo> {
        self.shared().node()
    }

    /// Whether there is a connection at the moment.
    pub fn is_connected(&self) -> bool {
        *self.shared().state.borrow() == LinkState::Up
    }

    /// Waits until the session is connected, or disconnected if `connected` is false. Calls need
    /// not use this: they wait for a connection by themselves. The future does not keep the session
    /// open.
    pub fn until_connected(&self, connected: bool) -> impl Future<Output = ()> + use<> {
        let mut state = self.shared().state.subscribe();
        async move {
            let awaited = |state: &LinkState| {
                (*state == LinkState::Up) == connected || *state == LinkState::Closed
            };
            let _ = state.wait_for(awaited).await;
        }
    }

    /// Calls a method of one of the node's services, at most once. `deadline` says how long from
    /// now the caller waits for the answer.
    ///
    /// # Errors
    /// Any error of the method; `Unsupported` if there is no such service; `Unavailable` if no
    /// answer comes in time or the connection breaks. After `Unavailable` the node may have
    /// executed the call.
    pub async fn ask(
        &self,
        service: &str,
        method: &str,
        input: Bytes,
        deadline: Duration,
    ) -> Result<Bytes> {
        self.call_service(service, method, input, deadline, Repeat::Unsafe).await
    }

    /// Calls a method that changes nothing. If the connection breaks, the session sends the call
    /// again.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub async fn query(
        &self,
        service: &str,
        method: &str,
        input: Bytes,
        deadline: Duration,
    ) -> Result<Bytes> {
        self.call_service(service, method, input, deadline, Repeat::Safe).await
    }

    async fn call_service(
        &self,
        service: &str,
        method: &str,
        input: Bytes,
        deadline: Duration,
        repeat: Repeat,
    ) -> Result<Bytes> {
        let ask = pb::Ask { service: service.to_owned(), method: method.to_owned(), input };
        let call = Call::new(&Asked::Ask(ask), repeat, deadline, self.shared().sample())?;
        match self.shared().exchange(&call).await? {
            Answer::Answer(answer) => Ok(answer.output),
            _ => Err(decode::senseless("no answer to an ask")),
        }
    }

    /// Runs a transaction. The request is encoded before this function returns, so the caller need
    /// not keep it until the reply.
    ///
    /// # Errors
    /// The errors of the store and of [`Session::ask`].
    pub fn submit(
        &self,
        request: Request,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply>> + Send + use<'_> {
        let transaction = self.transaction(request, deadline);
        async move { self.run(&transaction).await }
    }

    pub(crate) fn transaction(&self, request: Request, deadline: Duration) -> Transaction {
        let object = request.header.object.clone();
        Transaction { object, call: self.call_of(request, deadline) }
    }

    fn call_of(&self, request: Request, deadline: Duration) -> Result<Call> {
        let writes = request.ops.iter().any(Op::is_write);
        let repeat = if writes { Repeat::Unsafe } else { Repeat::Safe };
        let trace_id = request.header.trace_id;
        let sampled = if trace_id == 0 { self.shared().sample() } else { None };
        let asked = Asked::Request(encode::request(request));
        let mut call = Call::new(&asked, repeat, deadline, sampled)?;
        if call.origin.trace_id == 0 {
            call.origin.trace_id = trace_id;
        }
        Ok(call)
    }

    pub(crate) async fn run(&self, transaction: &Transaction) -> Result<Reply> {
        let exchanged = match &transaction.call {
            Ok(call) => self.shared().exchange(call).await,
            Err(error) => Err(error.clone()),
        };
        let reply = exchanged.and_then(|answer| match answer {
            Answer::Reply(reply) => decode::reply(reply),
            _ => Err(decode::senseless("no reply to a transaction")),
        });
        reply.map_err(|error| error.on(&transaction.object))
    }

    /// Lists the names of a pool's objects, in byte order.
    ///
    /// # Errors
    /// The errors of the store and of [`Session::ask`].
    pub async fn list(&self, request: ListRequest, deadline: Duration) -> Result<ListPage> {
        let asked = Asked::List(encode::list_request(request));
        let call = Call::new(&asked, Repeat::Safe, deadline, self.shared().sample())?;
        match self.shared().exchange(&call).await? {
            Answer::Page(page) => decode::list_page(page),
            _ => Err(decode::senseless("no page of names")),
        }
    }

    /// Watches an object. The watch survives reconnections: after each one, a `Lost` event says
    /// that the watch may have missed events.
    ///
    /// # Errors
    /// The errors of the node and of [`Session::ask`].
    pub async fn watch(&self, object: &ObjectId, deadline: Duration) -> Result<WatchStream> {
        let watch = pb::Watch { pool: object.pool.to_string(), object: object.name.to_string() };
        let watching = Watching::new(object.clone());
        let reader = watching.reader.clone();
        let sampled = self.shared().sample();
        let mut call = Call::new(&Asked::Watch(watch), Repeat::Safe, deadline, sampled)?;
        call.watch = Some(watching);
        match self.shared().exchange(&call).await? {
            Answer::Done(_) => Ok(Box::pin(EventStream::new(self.shared().clone(), reader))),
            _ => Err(decode::senseless("no answer to a watch")),
        }
    }

    /// Sends a payload to the watchers of an object.
    ///
    /// # Errors
    /// The errors of the node and of [`Session::ask`].
    pub async fn notify(
        &self,
        object: &ObjectId,
        payload: Bytes,
        deadline: Duration,
    ) -> Result<()> {
        let notify =
            pb::Notify { pool: object.pool.to_string(), object: object.name.to_string(), payload };
        let sampled = self.shared().sample();
        let call = Call::new(&Asked::Notify(notify), Repeat::Unsafe, deadline, sampled)?;
        match self.shared().exchange(&call).await? {
            Answer::Done(_) => Ok(()),
            _ => Err(decode::senseless("no answer to a notification")),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }
}
