//! The store of a node, as any other store.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store, Watch,
    WatchStream,
};

use super::session::Session;

/// What a request may take if nothing else is said. Long enough for a node to restart and recover.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// The store at the other end of a session.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    session: Session,
    deadline: Duration,
}

impl RemoteStore {
    /// The store of this session's node.
    pub fn new(session: Session) -> Self {
        Self { session, deadline: DEFAULT_DEADLINE }
    }

    /// The same, where each request may take so long.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

#[async_trait]
impl Store for RemoteStore {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.session.submit(request, self.deadline).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.session.list(request, self.deadline).await
    }

    /// What the node said it can. Before the first connection, everything: what it cannot it will
    /// refuse.
    fn capabilities(&self) -> Capabilities {
        self.session.node().map_or_else(Capabilities::all, |node| node.capabilities)
    }
}

#[async_trait]
impl Watch for RemoteStore {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.session.watch(object, self.deadline).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.session.notify(object, payload, self.deadline).await
    }
}
