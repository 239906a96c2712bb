//! The way to an object that several nodes can serve, because none of them keeps it.
//!
//! Each object has a gateway it goes through as long as that lives, so that what one client does to an
//! object meets what another does in one place, and the load is spread; while it is away any other will
//! do. **Invariant:** a request is sent to one gateway only: if that dies with it, whoever asked hears
//! that it may have happened.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store, Watch,
    WatchStream,
};
use nacre_wire::RemoteStore;

/// A gateway that takes longer to connect is passed over as long as there is another.
const CONNECT_PATIENCE: Duration = Duration::from_millis(300);

/// A gateway, and those that stand in for it.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// All of them; at least one.
    nodes: Vec<RemoteStore>,
    /// The one for requests.
    number: usize,
    /// The one for watches: another for each client, or all of an object's watchers would be told by
    /// one node.
    watched: usize,
}

impl Gateway {
    /// The gateway of this number, for a client that watches through another.
    pub(crate) fn new(nodes: Vec<RemoteStore>, number: usize, watched: usize) -> Self {
        Self { nodes, number, watched }
    }

    /// The first from this one on that is connected, or this one if none is.
    async fn living(&self, from: usize) -> &RemoteStore {
        let in_turn = self.nodes.iter().cycle().skip(from).take(self.nodes.len());
        for node in in_turn {
            let session = node.session();
            // One that was never spoken to may just not be connected yet.
            if !session.is_connected() && session.node().is_none() {
                let connecting = session.until_connected(true);
                let _ = tokio::time::timeout(CONNECT_PATIENCE, connecting).await;
            }
            if session.is_connected() {
                return node;
            }
        }
        &self.nodes[from]
    }
}

#[async_trait]
impl Store for Gateway {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.living(self.number).await.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.living(self.number).await.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.nodes[self.number].capabilities()
    }
}

#[async_trait]
impl Watch for Gateway {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.living(self.watched).await.watch(object).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.living(self.number).await.notify(object, payload).await
    }
}
