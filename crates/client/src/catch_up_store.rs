//! A stage before an engine: calls of classes wait until this process is not behind what they ask
//! for, and are counted. Inside the engine nothing can wait.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use nacre_object::{Capabilities, ListPage, ListRequest, Op, Reply, Request, Result, Store};

use crate::class_service::ClassService;

/// An engine behind the stage.
#[derive(Debug)]
pub(crate) struct CatchUpStore {
    engine: Arc<dyn Store>,
    classes: ClassService,
}

impl CatchUpStore {
    /// `engine`, whose methods `classes` runs.
    pub(crate) fn new(engine: Arc<dyn Store>, classes: ClassService) -> Self {
        Self { engine, classes }
    }

    async fn submit_calls(&self, request: Request) -> Result<Reply> {
        let mut under_way = None;
        for op in &request.ops {
            if let Op::Call(call) = op {
                let begun = self.classes.begin(call).await?;
                // Requests are under way, not calls: one counts for all that it makes.
                under_way = under_way.or(begun);
            }
        }
        self.engine.submit(request).await
    }
}

#[async_trait]
impl Store for CatchUpStore {
    // What calls nothing has no future here: it is the engine's.
    fn submit<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Result<Reply>>
    where
        'a: 'b,
        Self: 'b,
    {
        if request.ops.iter().any(|op| matches!(op, Op::Call(_))) {
            return Box::pin(self.submit_calls(request));
        }
        self.engine.submit(request)
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.engine.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}
