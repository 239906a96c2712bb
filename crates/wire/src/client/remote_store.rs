//! The store of a node, as any other store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store, Watch,
    WatchStream,
};

use super::session::Session;
use super::session_pair::SessionPair;
use crate::limits::REQUEST_DEADLINE;

/// The store at the other end of a session.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    sessions: Arc<SessionPair>,
    deadline: Duration,
}

impl RemoteStore {
    /// The store of this session's node. With many requests in flight, the remote store uses a
    /// second session. So the node may run requests in any order; a caller that needs an order
    /// waits for one reply before it sends the next request.
    pub fn new(session: Session) -> Self {
        Self { sessions: Arc::new(SessionPair::new(session)), deadline: REQUEST_DEADLINE }
    }

    /// This store, with another deadline for each request.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The session.
    pub fn session(&self) -> &Session {
        self.sessions.first()
    }
}

#[async_trait]
impl Store for RemoteStore {
    // Not an `async fn`: its future would keep the memory of the request until the answer comes.
    fn submit<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Result<Reply>>
    where
        'a: 'b,
        Self: 'b,
    {
        let transaction = self.session().transaction(request, self.deadline);
        // The session is chosen only when the request is sent, by what is in flight then.
        Box::pin(async move { self.sessions.next().run(&transaction).await })
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.session().list(request, self.deadline).await
    }

    /// Returns the capabilities that the node declared. Before the first connection, returns all
    /// capabilities; the node then refuses requests that it does not support.
    fn capabilities(&self) -> Capabilities {
        self.session().node().map_or_else(Capabilities::all, |node| node.capabilities)
    }
}

#[async_trait]
impl Watch for RemoteStore {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.session().watch(object, self.deadline).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.session().notify(object, payload, self.deadline).await
    }
}
