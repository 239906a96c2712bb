//! Chooses the gateway that serves an object. If another system, such as Ceph, keeps the objects,
//! any node can serve any object: the nodes are its gateways.
//!
//! Each object has a preferred gateway. So all clients' requests on one object meet at one node,
//! and the objects spread the load. While the preferred gateway cannot be reached, the next gateway
//! serves its requests.
//!
//! **Invariant:** a request that changes something is sent to one gateway only. If that gateway
//! dies, the caller gets an error which says that the change may have happened. A read is sent to
//! the next gateway instead.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, Op, Reply, Request, Result, Store, Watch,
    WatchStream,
};
use nacre_wire::RemoteStore;
use nacre_wire::limits::REQUEST_DEADLINE;
use tokio::time::Instant;

use crate::gateway_watch;

/// How long a gateway may take to connect. After that the client uses the next gateway.
const CONNECT_PATIENCE: Duration = Duration::from_millis(300);

/// A gateway, and the gateways that replace it while it cannot be reached.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// All gateways; at least one.
    nodes: Arc<[RemoteStore]>,
    /// The number of the gateway for requests.
    number: usize,
    /// The number of the gateway for watches. It differs from client to client, so that one node
    /// need not notify all watchers of an object.
    watched: usize,
}

impl Gateway {
    /// The gateway with this number, for a client that watches through the gateway `watched`.
    pub(crate) fn new(nodes: Arc<[RemoteStore]>, number: usize, watched: usize) -> Self {
        Self { nodes, number, watched }
    }

    /// Returns the first connected gateway, starting with number `from`. If none is connected,
    /// returns number `from`.
    async fn living(&self, from: usize) -> &RemoteStore {
        &self.nodes[self.living_number(from).await]
    }

    async fn living_number(&self, from: usize) -> usize {
        let in_turn = (0..self.nodes.len()).map(|step| (from + step) % self.nodes.len());
        for number in in_turn {
            let session = self.nodes[number].session();
            // This client has not used the gateway yet, so the session may still be connecting.
            if !session.is_connected() && session.node().is_none() {
                let connecting = session.until_connected(true);
                let _ = tokio::time::timeout(CONNECT_PATIENCE, connecting).await;
            }
            if session.is_connected() {
                return number;
            }
        }
        from
    }

    /// Sends a request that changes nothing. If a gateway dies before it answers, sends the request
    /// to the next gateway.
    async fn read<T>(
        &self,
        ask: impl Fn(RemoteStore) -> BoxFuture<'static, Result<T>> + Send + Sync,
    ) -> Result<T> {
        let give_up = Instant::now() + REQUEST_DEADLINE;
        loop {
            let node = self.living(self.number).await;
            let left = give_up.saturating_duration_since(Instant::now());
            let asking = ask(node.clone().with_deadline(left));
            let is_connected = node.session().is_connected();
            tokio::select! {
                biased;
                answer = asking => return answer,
                () = node.session().until_connected(false), if is_connected => {}
                () = self.any_connected(), if !is_connected => {}
            }
        }
    }

    async fn any_connected(&self) {
        let connecting =
            self.nodes.iter().map(|node| Box::pin(node.session().until_connected(true)));
        let _first = select_all(connecting).await;
    }
}

#[async_trait]
impl Store for Gateway {
    async fn submit(&self, request: Request) -> Result<Reply> {
        if request.ops.iter().any(Op::is_write) {
            return self.living(self.number).await.submit(request).await;
        }
        let ask = |node: RemoteStore| {
            let request = request.clone();
            async move { node.submit(request).await }.boxed()
        };
        self.read(ask).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let ask = |node: RemoteStore| {
            let request = request.clone();
            async move { node.list(request).await }.boxed()
        };
        self.read(ask).await
    }

    fn capabilities(&self) -> Capabilities {
        self.nodes[self.number].capabilities()
    }
}

#[async_trait]
impl Watch for Gateway {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        let number = self.living_number(self.watched).await;
        let events = self.nodes[number].watch(object).await?;
        Ok(gateway_watch::follow(Arc::downgrade(&self.nodes), object.clone(), number, events))
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.living(self.number).await.notify(object, payload).await
    }
}
